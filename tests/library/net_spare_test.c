// SPDX-License-Identifier: GPL-2.0-only
/*
 * Spare interfaces of a snapshot. Usage: net_spare_test serve|ask HUB OTHER-HUB. The environment is
 * that of client_boot().
 *
 * Both take an interface for HUB, and exchange datagrams. `ask` then does with others what a
 * program may do. Prints what the caller compares: the fate of the snapshot, "before" with the
 * names of the interfaces at first, "mac" with an address that the program did not choose.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <outboard/net.h>

#include "client.h"
#include "net_links.h"

#define PORT 7
#define SERVER "10.9.0.1"
#define ASKER "10.9.0.2"
#define DATAGRAMS 300		/* more than a queue has buffers */
#define BYTES 1400

/* Returns how many there are. */
static int show_interfaces(void)
{
	char text[64];
	int found = 0;

	printf("before:");
	for (int i = 0; i < 4; i++) {
		char name[IFNAMSIZ], path[64];

		snprintf(name, sizeof(name), "eth%d", i);
		snprintf(path, sizeof(path), "/sys/class/net/%s/address", name);
		if (!net_read_file(path, text, sizeof(text)))
			continue;
		CHECK(!net_is_up(name));
		printf(" %s", name);
		found++;
	}
	puts(" end");
	return found;
}

/* Adds a port of the hub, which must become the interface of that name. Returns its number. */
static int add(const char *hub, const char *more, const char *expected)
{
	char description[512], name[16];
	int number;

	snprintf(description, sizeof(description), "hub:%s%s", hub, more);
	number = net_add(description, name);
	if (strcmp(name, expected))
		fprintf(stderr, "%s became %s, not %s\n", description, name, expected);
	CHECK(!strcmp(name, expected));
	CHECK(net_is_up(name));
	return number;
}

/* The address, and the one that tools call permanent. */
static void check_mac(const char *name, const char *expected)
{
	struct {
		struct ethtool_perm_addr head;
		unsigned char bytes[6];
	} permanent = { .head = { .cmd = ETHTOOL_GPERMADDR, .size = 6 }, .bytes = { 0 } };
	struct ifreq request = { .ifr_data = (void *)&permanent };
	char path[64], text[64], address[18];
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));

	snprintf(path, sizeof(path), "/sys/class/net/%s/address", name);
	CHECK(net_read_file(path, text, sizeof(text)));
	CHECK(!strncmp(text, expected, 17));
	strcpy(request.ifr_name, name);
	OK(ob_sys_ioctl((unsigned int)fd, SIOCETHTOOL, (unsigned long)&request));
	for (int i = 0; i < 6; i++)
		sprintf(address + 3 * i, "%02x%c", permanent.bytes[i], i < 5 ? ':' : 0);
	CHECK(!strcmp(address, expected));
	OK(ob_sys_close(fd));
}

static struct sockaddr_in at(const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	CHECK_EQUAL(inet_pton(AF_INET, address, &to.sin_addr), 1);
	return to;
}

static void serve(void)
{
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0)), size = sizeof(struct sockaddr_in);
	struct sockaddr_in own = at(SERVER), from;
	char bytes[BYTES];

	OK(ob_sys_bind(fd, (void *)&own, sizeof(own)));
	puts("ready");
	fflush(stdout);
	for (;;) {
		long length = OK(ob_sys_recvfrom(fd, bytes, sizeof(bytes), 0, (void *)&from,
						 &size));

		if (!length)
			break;
		OK(ob_sys_sendto(fd, bytes, (size_t)length, 0, (void *)&from, size));
	}
}

static void ask(void)
{
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in to = at(SERVER);
	unsigned char bytes[BYTES], answer[BYTES];

	OK(ob_sys_connect(fd, (void *)&to, sizeof(to)));
	for (int i = 0; i < DATAGRAMS; i++) {
		memset(bytes, i, sizeof(bytes));
		OK(ob_sys_sendto(fd, bytes, sizeof(bytes), 0, NULL, 0));
		CHECK_EQUAL(OK(ob_sys_recvfrom(fd, answer, sizeof(answer), 0, NULL, NULL)), BYTES);
		CHECK(!memcmp(bytes, answer, sizeof(bytes)));
	}
	OK(ob_sys_sendto(fd, "", 0, 0, NULL, 0));
	OK(ob_sys_close(fd));
}

/* With one more spare interface, or none at all. `first`: the number of eth0. */
static void use_others(const char *other, bool has_spare, int first)
{
	/* Its driver would see a difference: the hub has an MTU from then on. */
	const char *large = has_spare ? "eth2" : "eth1";
	char path[512], text[64];
	int number = add(other, ",mtu=9000", large);

	CHECK_EQUAL(net_mtu(large), 9000);
	CHECK_EQUAL(ob_net_remove(number), 0);
	number = add(other, "", large);
	CHECK_EQUAL(net_mtu(large), 9000);
	CHECK_EQUAL(ob_net_remove(number), 0);
	snprintf(path, sizeof(path), "%s.plain", other);
	number = add(path, "", "eth1");
	CHECK_EQUAL(net_mtu("eth1"), 1500);
	CHECK(net_read_file("/sys/class/net/eth1/address", text, sizeof(text)));
	printf("mac: %s", text);
	CHECK_EQUAL(ob_net_remove(number), 0);
	/* A removed one does not come back as a spare one. */
	CHECK_EQUAL(ob_net_remove(first), 0);
	add(other, ",mac=02:00:00:00:00:77", "eth0");
	check_mac("eth0", "02:00:00:00:00:77");
}

int main(int count, char **arguments)
{
	int found, number;

	CHECK_EQUAL(count, 4);
	client_boot(1);
	found = show_interfaces();
	if (!strcmp(arguments[1], "serve")) {
		add(arguments[2], ",mac=02:00:00:00:00:01,ip=" SERVER "/24", "eth0");
		check_mac("eth0", "02:00:00:00:00:01");
		serve();
	} else {
		number = add(arguments[2], ",mac=02:00:00:00:00:02,ip=" ASKER "/24", "eth0");
		check_mac("eth0", "02:00:00:00:00:02");
		ask();
		use_others(arguments[3], found > 1, number);
	}
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
