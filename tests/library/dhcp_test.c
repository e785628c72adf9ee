// SPDX-License-Identifier: GPL-2.0-only
/*
 * The DHCP client, against a server at the other end of a cable inside the kernel.
 *
 *   dhcp_test CASE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if.h>
#include <linux/sockios.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"
#include "dhcp_server.h"
#include "lease_cases.h"
#include "net_links.h"
#include "threads.h"
#include "wait_for.h"

static void expect_source(const char *destination, const char *wanted)
{
	char source[64] = "(none)";

	net_source(destination, source, sizeof(source));
	if (strcmp(source, wanted)) {
		fprintf(stderr, "a packet to %s comes from %s, not %s\n", destination, source,
			wanted);
		_Exit(1);
	}
}

static void test_lease(void)
{
	char text[256], unused[64];

	dhcp_server_option(3, (uint8_t[]){ 10, 5, 0, 1 }, 4);
	dhcp_server_option(6, (uint8_t[]){ 10, 5, 0, 53, 10, 5, 0, 54 }, 8);
	dhcp_server_option(26, (uint8_t[]){ 0x05, 0x78 }, 2);
	net_configure("eth7", "dhcp");
	CHECK(net_has_address("10.5.0.77") && net_is_up("lo"));
	CHECK_EQUAL(net_mtu("eth7"), 1400);
	expect_source("192.0.2.1", "10.5.0.77");
	CHECK(net_read_file("/etc/resolv.conf", text, sizeof(text)));
	CHECK(!strcmp(text, "nameserver 10.5.0.53\nnameserver 10.5.0.54\n"));
	lease_expect_failure("dhcp", -EEXIST, "eth7: dhcp: a client runs already");
	net_configure("eth7", "down");
	CHECK(!net_has_address("10.5.0.77"));
	CHECK_EQUAL(net_mtu("eth7"), 1500);
	CHECK(!net_source("192.0.2.1", unused, sizeof(unused)));
	CHECK(!net_read_file("/etc/resolv.conf", text, sizeof(text)));
	CHECK_EQUAL(threads_named("outboard dhcp", NULL), 0);
	WAIT_FOR(dhcp_server.releases == 1);
	/* And again, with an MTU of the program's own. */
	net_configure("eth7", "dhcp,mtu=1450,dns=10.5.0.99");
	CHECK(net_has_address("10.5.0.77"));
	CHECK_EQUAL(net_mtu("eth7"), 1450);
	CHECK(net_read_file("/etc/resolv.conf", text, sizeof(text)));
	CHECK(!strcmp(text, "nameserver 10.5.0.99\nnameserver 10.5.0.53\nnameserver 10.5.0.54\n"));
}

/* Classless routes replace the router: one on the link, one with bits behind its prefix. */
static void test_routes(void)
{
	static const uint8_t routes[] = {
		24, 192, 168, 9, 0, 0, 0, 0,
		12, 172, 31, 10, 5, 0, 1,
		32, 192, 0, 2, 1, 10, 99, 0, 1,
	};
	char unused[64];

	dhcp_server_option(3, (uint8_t[]){ 10, 5, 0, 1 }, 4);
	dhcp_server_option(121, routes, sizeof(routes));
	net_configure("eth7", "dhcp");
	expect_source("192.168.9.4", "10.5.0.77");
	expect_source("172.20.0.1", "10.5.0.77");
	/* By a gateway that is in no network of the interface. */
	expect_source("192.0.2.1", "10.5.0.77");
	CHECK(!net_source("8.8.8.8", unused, sizeof(unused)));
}

/* Of the interface's default route by a gateway, as /proc/net/route writes it. -1: none. */
static long default_metric(const char *gateway)
{
	char text[4096], name[16], by[16];
	unsigned int to, metric;

	CHECK(net_read_file("/proc/net/route", text, sizeof(text)));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (sscanf(line, "%15s %x %15s %*x %*d %*d %u", name, &to, by, &metric) == 4 &&
		    !strcmp(name, "eth7") && !to && !strcmp(by, gateway))
			return metric;
	return -1;
}

/*
 * The program's own default route comes before that of the lease. An MTU that is too small for IPv6
 * is ignored, and so is a name of the host.
 */
static void test_gateway(void)
{
	struct utsname before, after;

	OK(ob_sys_uname((void *)&before));
	dhcp_server_option(3, (uint8_t[]){ 10, 5, 0, 1 }, 4);
	dhcp_server_option(12, (const uint8_t *)"other", 5);
	dhcp_server_option(26, (uint8_t[]){ 0x04, 0xff }, 2);
	net_configure("eth7", "ip=10.5.0.9/24,gw=10.5.0.2,dhcp");
	CHECK(net_has_address("10.5.0.9") && net_has_address("10.5.0.77"));
	expect_source("192.0.2.1", "10.5.0.9");
	CHECK_EQUAL(default_metric("0200050A"), 0);
	CHECK_EQUAL(default_metric("0100050A"), 1024 + net_index("eth7"));
	CHECK_EQUAL(net_mtu("eth7"), 1500);
	OK(ob_sys_uname((void *)&after));
	CHECK(!strcmp(before.nodename, after.nodename));
}

static void test_renewal(void)
{
	dhcp_server.lease = 3;
	net_configure("eth7", "dhcp");
	WAIT_FOR(dhcp_server.renewals >= 3);
	/* A client whose lease had ended would have asked for another one. */
	CHECK_EQUAL(dhcp_server.discovers, 1);
	CHECK(net_has_address("10.5.0.77"));
}

/* The server does not hear the client any more, only everybody does. Then nobody answers. */
static void test_expiry(void)
{
	double start = seconds();

	dhcp_server.lease = 4;
	net_configure("eth7", "dhcp");
	dhcp_server.mode = DHCP_SILENT;
	WAIT_FOR(!net_has_address("10.5.0.77"));
	/* Not before its end. */
	CHECK(seconds() - start >= 3.9);
	CHECK(dhcp_server.renewals && dhcp_server.rebinds);
	WAIT_FOR(dhcp_server.discovers > 1);
	dhcp_server.host = 78;
	dhcp_server.mode = DHCP_ANSWER;
	WAIT_FOR(net_has_address("10.5.0.78"));
}

static void test_refused_renewal(void)
{
	dhcp_server.lease = 2;
	net_configure("eth7", "dhcp");
	dhcp_server.mode = DHCP_REFUSE_ONCE;
	WAIT_FOR(net_has_address("10.5.0.78"));
	CHECK(!net_has_address("10.5.0.77"));
}

static void test_refused(void)
{
	dhcp_server.mode = DHCP_REFUSE;
	lease_expect_failure("dhcp=3", -ETIMEDOUT,
		       "eth7: dhcp: no server has given a lease in 3 seconds");
	/* It did not ask as fast as it could. */
	CHECK(dhcp_server.discovers < 10);
	CHECK(!net_is_up("eth7"));
	dhcp_server.mode = DHCP_SILENT;
	lease_expect_failure("dhcp=1", -ETIMEDOUT, "in 1 seconds");
	lease_expect_failure("dhcp=1,ip=10.6.0.1/24", -ETIMEDOUT, "in 1 seconds");
	CHECK(!net_has_address("10.6.0.1") && !net_is_up("eth7"));
	CHECK(!ob_net_configure("lo", "up"));
	CHECK_EQUAL(ob_net_configure("lo", "dhcp"), -EOPNOTSUPP);
}

static void test_hostile(void)
{
	dhcp_server.wrong = 2000;
	dhcp_server.lease = 2;
	net_configure("eth7", "dhcp=120");
	CHECK(net_has_address("10.5.0.77"));
	WAIT_FOR(dhcp_server.renewals > 2);
	CHECK(net_has_address("10.5.0.77"));
}

/* The program's descriptors are its own: it may close all. */
static void test_descriptors(void)
{
	int before = (int)OK(ob_sys_dup(0)), after;

	OK(ob_sys_close(before));
	dhcp_server.lease = 2;
	net_configure("eth7", "dhcp");
	after = (int)OK(ob_sys_dup(0));
	CHECK_EQUAL(after, before);
	OK(ob_sys_close(after));
	WAIT_FOR(dhcp_server.renewals > 2);
}

static void silence(void)
{
	dhcp_server.mode = DHCP_SILENT;
}

static const struct lease_client client = {
	.word = "dhcp",
	.thread = "outboard dhcp",
	.start = dhcp_server_start,
	.silence = silence,
	.asked = &dhcp_server.discovers,
};

static void test_interrupt(void)
{
	lease_test_interrupt(&client);
}

static void test_halt(void)
{
	lease_test_halt(&client);
}

static void test_fork(void)
{
	int status;
	pid_t child;

	dhcp_server.lease = 3;
	net_configure("eth7", "dhcp");
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		CHECK_EQUAL(ob_net_configure("eth7", "down"), -ENODEV);
		client_boot(1);
		CHECK_EQUAL(ob_net_configure("eth7", "down"), -ENOENT);
		CHECK_EQUAL(ob_halt(), 0);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_EQUAL(status, 0);
	dhcp_server.renewals = 0;
	WAIT_FOR(dhcp_server.renewals > 2);
	CHECK(net_has_address("10.5.0.77"));
}

static void set_link(const char *name, bool up)
{
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));
	struct ifreq request = { .ifr_flags = 0 };

	strcpy(request.ifr_name, name);
	OK(ob_sys_ioctl(fd, SIOCGIFFLAGS, (unsigned long)&request));
	request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
	OK(ob_sys_ioctl(fd, SIOCSIFFLAGS, (unsigned long)&request));
	OK(ob_sys_close(fd));
}

/* Linux drops the default route of a link that goes down. The next renewal brings it back. */
static void test_down_and_up(void)
{
	char unused[64];

	dhcp_server.lease = 6;
	dhcp_server_option(3, (uint8_t[]){ 10, 5, 0, 1 }, 4);
	net_configure("eth7", "dhcp");
	expect_source("192.0.2.1", "10.5.0.77");
	set_link("eth7", false);
	set_link("eth7", true);
	CHECK(!net_source("192.0.2.1", unused, sizeof(unused)));
	WAIT_FOR(net_source("192.0.2.1", unused, sizeof(unused)));
	CHECK_EQUAL(dhcp_server.discovers, 1);
}

static volatile int elsewhere;

/* Takes the interface, and gives it back after the client has ended. */
static void *borrow_link(void *owner)
{
	OK(ob_sys_unshare(0x40000000 /* CLONE_NEWNET */));
	elsewhere = (int)OK(ob_sys_gettid());
	WAIT_FOR(net_index("eth7") > 0);
	WAIT_FOR(!threads_named("outboard dhcp", NULL));
	net_move_link("eth7", (long)owner);
	return NULL;
}

static void test_client_again(void)
{
	pthread_t thread;

	dhcp_server.lease = 1;
	net_configure("eth7", "dhcp");
	CHECK(!pthread_create(&thread, NULL, borrow_link, (void *)OK(ob_sys_gettid())));
	WAIT_FOR(elsewhere);
	net_move_link("eth7", elsewhere);
	CHECK(!pthread_join(thread, NULL));
	/* The client that has ended is in nobody's way. */
	net_configure("eth7", "dhcp");
	CHECK(net_has_address("10.5.0.77"));
	CHECK_EQUAL(threads_named("outboard dhcp", NULL), 1);
}

/* The program takes the interface away. */
static void test_link_goes(void)
{
	double start = seconds();

	dhcp_server.lease = 1;
	net_configure("eth7", "dhcp");
	WAIT_FOR(dhcp_server.renewals);
	/* Each comes half a second after the last one. */
	CHECK(dhcp_server.renewals <= (seconds() - start) / 0.5);
	net_delete_link("eth7");
	WAIT_FOR(!threads_named("outboard dhcp", NULL));
}

static const struct lease_case cases[] = {
	{ "lease", test_lease },	     { "routes", test_routes },
	{ "gateway", test_gateway },
	{ "renewal", test_renewal },	     { "expiry", test_expiry },
	{ "refused", test_refused },	     { "refused-renewal", test_refused_renewal },
	{ "hostile", test_hostile },	     { "descriptors", test_descriptors },
	{ "interrupt", test_interrupt },     { "halt", test_halt },
	{ "fork", test_fork },		     { "link-goes", test_link_goes },
	{ "down-and-up", test_down_and_up }, { "client-again", test_client_again },
};

int main(int count, char **arguments)
{
	CHECK(count == 2);
	return lease_run(&client, cases, sizeof(cases) / sizeof(cases[0]), arguments[1]);
}
