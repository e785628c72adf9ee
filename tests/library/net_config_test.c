// SPDX-License-Identifier: GPL-2.0-only
/*
 * Descriptions of network interfaces, and what becomes of them in the kernel.
 *
 *   net_config_test add DESCRIPTION...        prints what ob_net_add returns without a kernel
 *   net_config_test configure CHANGES...      the same of ob_net_configure
 *   net_config_test CASE                      runs one of the cases below
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"
#include "net_links.h"
#include "wait_for.h"

#define CALLERS 4

static void expect_reason(int result, int wanted, const char *part)
{
	CHECK_EQUAL(result, wanted);
	if (!strstr(ob_net_error(), part)) {
		fprintf(stderr, "the reason is \"%s\", without \"%s\"\n", ob_net_error(), part);
		_Exit(1);
	}
}

static void expect_source(const char *destination, const char *wanted)
{
	char source[64];

	CHECK(net_source(destination, source, sizeof(source)));
	if (strcmp(source, wanted)) {
		fprintf(stderr, "a packet to %s comes from %s, not %s\n", destination, source,
			wanted);
		_Exit(1);
	}
}

static void expect_servers(const char *wanted)
{
	char text[512];

	CHECK(net_read_file("/etc/resolv.conf", text, sizeof(text)));
	if (strcmp(text, wanted)) {
		fprintf(stderr, "resolv.conf is\n%s", text);
		_Exit(1);
	}
}

static void test_addresses(void)
{
	/* Linux looks for duplicates of addresses on a cable, but not on a dummy interface. */
	net_make_veth("test0", "test1");
	net_configure("test1", "up");
	net_configure("lo", "down");
	CHECK(!net_is_up("test0") && !net_is_up("lo"));
	net_configure("test0", "ip=10.1.0.1/24,ip=fd00::1/64,mtu=1400");
	/* At once: the kernel does not look for duplicates first. */
	CHECK(net_has_address("fd00::1") && net_has_address("10.1.0.1"));
	CHECK(net_is_up("test0") && net_is_up("lo") && net_has_address("127.0.0.1"));
	CHECK_EQUAL(net_mtu("test0"), 1400);
	CHECK(*ob_net_error() == '\0');
	net_configure("test0", "ip=10.1.0.2/24");
	CHECK(net_has_address("10.1.0.2") && net_has_address("10.1.0.1"));
	net_configure("lo", "ip=10.2.0.1/32");
	CHECK(net_has_address("10.2.0.1"));
}

static void test_gateways(void)
{
	char unused[64];

	net_make_dummy("test0");
	net_make_dummy("test1");
	net_configure("test0", "ip=10.1.0.1/24,ip=fd00::1/64");
	CHECK(!net_source("192.0.2.1", unused, sizeof(unused)));
	expect_reason(ob_net_configure("test0", "gw=10.2.0.9"), -EINVAL, "gw=10.2.0.9");
	expect_reason(ob_net_configure("test0", "gw=10.1.0.1"), -EINVAL, "own address");
	/* The address was there already. */
	net_configure("test0", "gw=10.1.0.9");
	expect_source("192.0.2.1", "10.1.0.1");
	net_configure("test0", "gw=fd00::9");
	expect_source("2001:db8::1", "fd00::1");
	expect_reason(ob_net_configure("test1", "ip=10.7.0.1/24,gw=10.7.0.9"), -EEXIST,
		      "test1: gw=10.7.0.9");
	CHECK(!net_has_address("10.7.0.1") && !net_is_up("test1"));
}

static void test_changes(void)
{
	int index;

	net_make_dummy("test0");
	index = net_index("test0");
	net_configure("test0", "mac=02:00:00:00:00:01,name=lan0");
	CHECK(net_index("test0") < 0 && net_index("lan0") == index);
	/* Nothing of this needs the interface to be up. */
	CHECK(!net_is_up("lan0"));
	net_configure("lan0", "up");
	/* Made of the MAC address. */
	net_configure("lan0", "name=wan0,ip=fd00::1/64");
	CHECK_EQUAL(net_index("wan0"), index);
	net_configure("wan0", "down");
	CHECK(!net_is_up("wan0"));
	net_configure("wan0", "down,ip=10.1.0.1/24");
	CHECK(!net_is_up("wan0") && net_has_address("10.1.0.1"));
}

/* A step that fails leaves nothing of the steps before. */
static void test_undone(void)
{
	net_make_dummy("test0");
	net_make_dummy("test1");
	net_configure("test0", "ip=10.1.0.1/24,down");
	net_configure("lo", "down");
	expect_reason(ob_net_configure("test0", "name=lan0,mtu=1300,ip=10.9.0.1/24,ip=fd00::1/64,"
						 "dns=10.9.0.3,ip=10.1.0.1/24"),
		      -EEXIST, "test0: ip=10.1.0.1/24: ");
	/* The kernel's own words. */
	CHECK(strstr(ob_net_error(), "Address already assigned"));
	CHECK(net_has_address("10.1.0.1") && !net_has_address("10.9.0.1"));
	CHECK(!net_has_address("fd00::1"));
	CHECK(!net_is_up("test0") && net_index("lan0") < 0);
	/* Others may use loopback by then. */
	CHECK(net_is_up("lo"));
	CHECK_EQUAL(net_mtu("test0"), 1500);
	CHECK(ob_sys_access("/etc/resolv.conf", 0) < 0);
	expect_reason(ob_net_configure("test0", "name=test1"), -EEXIST, "test0: name=test1: ");
	expect_reason(ob_net_configure("eth9", "up"), -ENOENT, "eth9: no interface");
	expect_reason(ob_net_configure("a name that is far too long", "up"), -ENOENT, "too long");
}

static void test_servers(void)
{
	net_make_dummy("test0");
	net_make_dummy("test1");
	net_configure("test0", "dns=10.0.0.1,dns=fd00::53");
	expect_servers("nameserver 10.0.0.1\nnameserver fd00::53\n");
	net_configure("test1", "dns=10.0.0.2");
	expect_servers("nameserver 10.0.0.2\nnameserver 10.0.0.1\nnameserver fd00::53\n");
	net_configure("test0", "dns=10.0.0.3");
	expect_servers("nameserver 10.0.0.2\nnameserver 10.0.0.3\n");
	OK(ob_sys_mkdir("/ro", 0755));
	OK(ob_sys_mount("none", "/ro", "tmpfs", 1 /* MS_RDONLY */, NULL));
	OK(ob_sys_chroot("/ro"));
	expect_reason(ob_net_configure("test1", "dns=10.0.0.4"), -EROFS,
		      "test1: dns: cannot write /etc/resolv.conf");
}

static void write_kernel_file(const char *path, const char *text)
{
	int fd = (int)OK(ob_sys_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));

	CHECK_EQUAL(ob_sys_write(fd, (void *)text, strlen(text)), (long)strlen(text));
	OK(ob_sys_close(fd));
}

/* A name for a hub of the test's own. */
static const char *hub(char description[128], const char *words)
{
	snprintf(description, 128, "hub:/tmp/outboard-net-config-%d%s", (int)getpid(), words);
	return description;
}

/* The program changes to an image that has a file and a link of its own. */
static void test_foreign_servers(void)
{
	char description[128], text[64];
	int number = ob_net_add(hub(description, ",dns=10.0.0.1"), NULL);

	CHECK(number >= 0);
	expect_servers("nameserver 10.0.0.1\n");
	OK(ob_sys_mkdir("/image", 0755));
	OK(ob_sys_mkdir("/image/etc", 0755));
	OK(ob_sys_chroot("/image"));
	write_kernel_file("/etc/resolv.conf", "the image's own\n");
	CHECK_EQUAL(ob_net_remove(number), 0);
	expect_servers("the image's own\n");
	net_make_dummy("test0");
	write_kernel_file("/victim", "unchanged\n");
	OK(ob_sys_symlink("/victim", "/etc/.resolv.conf.outboard"));
	net_configure("test0", "dns=10.0.0.2");
	expect_servers("nameserver 10.0.0.2\n");
	CHECK(net_read_file("/victim", text, sizeof(text)) && !strcmp(text, "unchanged\n"));
}

static void *add_elsewhere(void *description)
{
	OK(ob_sys_unshare(0x40000000 /* CLONE_NEWNET */));
	expect_reason(ob_net_add(description, NULL), -EXDEV, "another network namespace");
	net_make_dummy("eth0");
	expect_reason(ob_net_add(description, NULL), -EXDEV, "another network namespace");
	CHECK(!net_is_up("eth0"));
	return NULL;
}

static void test_namespaces(void)
{
	char description[128], name[16];
	pthread_t thread;

	hub(description, ",ip=10.1.0.2/24");
	CHECK(!pthread_create(&thread, NULL, add_elsewhere, description));
	CHECK(!pthread_join(thread, NULL));
	CHECK(net_index("eth0") < 0);
	CHECK(ob_net_add(description, name) >= 0);
	CHECK(!strcmp(name, "eth0") && net_is_up("eth0") && net_has_address("10.1.0.2"));
}

/* A back-end that cannot be opened leaves the capture's file alone. */
static void test_capture_file(void)
{
	char path[64], description[128], text[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/outboard-net-config-%d.pcapng", (int)getpid());
	file = fopen(path, "w");
	CHECK(file && fputs("old", file) >= 0 && !fclose(file));
	snprintf(description, sizeof(description), "tap:a/b,pcap=%s", path);
	expect_reason(ob_net_add(description, NULL), -EINVAL, "cannot open tap interface a/b: ");
	/* One prefix is enough. */
	CHECK(!strncmp(ob_net_error(), "cannot open", 11));
	file = fopen(path, "r");
	CHECK(file && fgets(text, sizeof(text), file) && !strcmp(text, "old") && !fclose(file));
	CHECK(!unlink(path));
}

/* Nobody announces a network on a dummy interface. */
static void *call_until(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED))
		ob_sys_getpid();
	return NULL;
}

/* The first frame is sent. */
static void test_link_at_once(void)
{
	char description[128], name[16];

	for (int i = 0; i < 30; i++) {
		int number = ob_net_add(hub(description, ",name=lan0"), name);

		CHECK(number >= 0);
		CHECK(net_has_link(name));
		CHECK_EQUAL(ob_net_remove(number), 0);
	}
}

/*
 * Linux's driver reads the state of the link by a worker, which is cancelled if it comes too late.
 * Other threads keep it from the vCPUs.
 */
static void test_down_and_up(void)
{
	char description[128], name[16], path[64], text[16];
	pthread_t callers[CALLERS];
	bool stop = false;

	for (int i = 0; i < CALLERS; i++)
		CHECK_EQUAL(pthread_create(&callers[i], NULL, call_until, &stop), 0);
	for (int i = 0; i < 60; i++) {
		int number = ob_net_add(hub(description, ",down"), name);

		CHECK(number >= 0);
		snprintf(path, sizeof(path), "/sys/class/net/%s/carrier", name);
		net_up_down_up(name);
		WAIT_FOR(net_read_file(path, text, sizeof(text)) && !strcmp(text, "1\n"));
		CHECK_EQUAL(ob_net_remove(number), 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (int i = 0; i < CALLERS; i++)
		CHECK_EQUAL(pthread_join(callers[i], NULL), 0);
}

static void test_slaac_in_vain(void)
{
	net_make_dummy("test0");
	expect_reason(ob_net_configure("test0", "slaac=1,ip=fd00::1/64"), -ETIMEDOUT,
		      "test0: slaac: no router");
	CHECK(!net_has_address("fd00::1") && !net_is_up("test0"));
}

/* Sends announcements of the network 2001:db8:1::/64 out of test1 until it is told to stop. */
static void *announce(void *stop)
{
	static const uint8_t announcement[] = {
		134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0,
		3, 4, 64, 0xc0, 0, 0, 0x10, 0, 0, 0, 0x10, 0, 0, 0, 0, 0,
		0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	};
	struct sockaddr_in6 all = { .sin6_family = AF_INET6 };
	int fd = (int)OK(ob_sys_socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6)), hops = 255;

	CHECK(inet_pton(AF_INET6, "ff02::1", &all.sin6_addr) == 1);
	all.sin6_scope_id = (uint32_t)net_index("test1");
	OK(ob_sys_setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &hops, sizeof(hops)));
	while (!*(volatile int *)stop) {
		/* Fails as long as Linux looks for duplicates of its own address. */
		ob_sys_sendto(fd, (void *)announcement, sizeof(announcement), 0, (void *)&all,
			      sizeof(all));
		usleep(50000);
	}
	return NULL;
}

static void test_slaac(void)
{
	pthread_t thread;
	char text[64];
	int stop = 0;

	net_make_veth("test0", "test1");
	net_configure("test1", "up");
	CHECK(!pthread_create(&thread, NULL, announce, &stop));
	net_configure("test0", "slaac=30");
	/* The address is usable. */
	CHECK(net_source("2001:db8:1::99", text, sizeof(text)));
	CHECK(!strncmp(text, "2001:db8:1:", 11) && net_has_address(text));
	CHECK(net_read_file("/proc/sys/net/ipv6/conf/test0/accept_ra", text, sizeof(text)));
	CHECK(!strcmp(text, "2\n"));
	stop = 1;
	CHECK(!pthread_join(thread, NULL));
}

static void *wait_for_router(void *unused)
{
	(void)unused;
	return (void *)(long)ob_net_configure("test0", "slaac=300");
}

/* A halt ends a call that waits for the network. */
static void test_halt(void)
{
	pthread_t thread;
	void *result;

	net_make_dummy("test0");
	CHECK(!pthread_create(&thread, NULL, wait_for_router, NULL));
	while (!net_is_up("test0"))
		ob_sys_sched_yield();
	expect_reason(ob_net_configure("test0", "mtu=1400"), -EBUSY, "test0: another call");
	CHECK_EQUAL(ob_halt(), 0);
	CHECK(!pthread_join(thread, &result));
	CHECK_EQUAL((long)result, -ENODEV);
	expect_reason(ob_net_configure("test0", "mtu=1400"), -ENODEV, "no kernel runs");
	/* Nothing is left of it. */
	client_boot(1);
	net_make_dummy("test0");
	net_configure("test0", "mtu=1400");
}

static void test_instances(void)
{
	struct ob_instance *other;

	CHECK(!ob_instance_new(&other));
	expect_reason(ob_net_configure_on(other, "lo", "up"), -ENODEV, "no kernel runs");
	expect_reason(ob_net_remove_on(other, 0), -ENODEV, "no kernel runs");
	expect_reason(ob_net_remove(0), -ENOENT, "number 0");
	expect_reason(ob_net_configure_on(NULL, "lo", "up"), -EINVAL, "no instance");
	CHECK(!ob_boot_on(other, NULL));
	CHECK(!ob_net_configure_on(other, "lo", "up"));
	CHECK(!net_is_up("lo"));
	/* Reasons of components and of the network are apart. */
	CHECK_EQUAL(ob_component_load("no-such", NULL), -ENOENT);
	CHECK(*ob_net_error() == '\0' && *ob_component_error());
	expect_reason(ob_net_configure("eth9", "up"), -ENOENT, "eth9");
	CHECK(strstr(ob_component_error(), "no-such"));
	CHECK(!ob_halt_on(other) && !ob_instance_free(other));
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "addresses", test_addresses }, { "gateways", test_gateways },
	{ "changes", test_changes },	 { "undone", test_undone },
	{ "servers", test_servers },	 { "slaac-in-vain", test_slaac_in_vain },
	{ "foreign-servers", test_foreign_servers },
	{ "namespaces", test_namespaces }, { "capture-file", test_capture_file },
	{ "slaac", test_slaac }, { "link-at-once", test_link_at_once },
	{ "down-and-up", test_down_and_up },
	{ "halt", test_halt },		 { "instances", test_instances },
};

static int print_results(int count, char **arguments)
{
	for (int i = 1; i < count; i++) {
		int result = strcmp(arguments[0], "add")
				     ? ob_net_configure("lo", arguments[i])
				     : ob_net_add(arguments[i], NULL);

		printf("%d %s\n", result, ob_net_error());
	}
	return 0;
}

int main(int count, char **arguments)
{
	CHECK(count > 1);
	if (!strcmp(arguments[1], "add") || !strcmp(arguments[1], "configure"))
		return print_results(count - 1, arguments + 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, arguments[1]))
			continue;
		client_boot(cases[i].run == test_down_and_up ? 2 : 1);
		cases[i].run();
		CHECK_EQUAL(ob_halt(), 0);
		return 0;
	}
	fprintf(stderr, "no such case: %s\n", arguments[1]);
	return 2;
}
