// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints what the network of a kernel chooses by its secrets, for the caller to compare between two
 * starts of one snapshot. Usage: net_secrets_test HUB, a path. COMPONENTS in the environment has
 * bonding, ifb, ip6_tunnel and ip6_gre.
 *
 *   NAME VALUE...              equal values mean a shared secret
 *   NAME FIRST LAST [...]      32-bit ranges, for names that begin with "range-": a number that
 *                              Linux made of a secret and the clock, without the clock. If all
 *                              ranges of two starts overlap, the secret is shared
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <outboard/net.h>

#include "client.h"
#include "net_links.h"
#include "net_wireguard.h"

#define SAMPLES 4
#define SERVER_PORT 2000
#define CLIENT_PORT 1000
#define RECEIVE_QUEUE 1
#define SEND_QUEUE 2

static struct sockaddr_in at(uint32_t host, uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK + host) };
}

static int listening(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(SERVER_PORT) };
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0)), pending = 16;

	OK(ob_sys_bind(fd, (void *)&any, sizeof(any)));
	OK(ob_sys_setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN, (void *)&pending, sizeof(pending)));
	OK(ob_sys_listen(fd, 256));
	return fd;
}

/* Port 0: Linux chooses one. */
static int connected(uint16_t port, uint32_t host)
{
	struct sockaddr_in own = at(0, port), to = at(host, SERVER_PORT);
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));

	if (port)
		OK(ob_sys_bind(fd, (void *)&own, sizeof(own)));
	OK(ob_sys_connect(fd, (void *)&to, sizeof(to)));
	return fd;
}

static void set_tcp(int fd, int option, int value)
{
	OK(ob_sys_setsockopt(fd, IPPROTO_TCP, option, (void *)&value, sizeof(value)));
}

static uint32_t get_tcp(int fd, int option)
{
	uint32_t value;
	int size = sizeof(value);

	OK(ob_sys_getsockopt(fd, IPPROTO_TCP, option, (void *)&value, &size));
	return value;
}

/* The sequence number that follows the first one of a direction. */
static uint32_t sequence(int fd, int queue)
{
	uint32_t number;

	set_tcp(fd, TCP_REPAIR, 1);
	set_tcp(fd, TCP_REPAIR_QUEUE, queue);
	number = get_tcp(fd, TCP_QUEUE_SEQ);
	set_tcp(fd, TCP_REPAIR, 0);
	return number;
}

static uint64_t kernel_clock(int clock)
{
	struct timespec now;

	OK(ob_sys_clock_gettime(clock, &now));
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void print_range(uint32_t number, uint64_t before, uint64_t after)
{
	printf(" %u %u", number - (uint32_t)after, number - (uint32_t)before);
}

/* net/core/secure_seq.c adds the clock, in units of 64 ns. */
static void print_sequence_numbers(void)
{
	printf("range-sequence");
	for (uint16_t i = 0; i < SAMPLES; i++) {
		uint64_t before = kernel_clock(CLOCK_REALTIME);
		int fd = connected((uint16_t)(CLIENT_PORT + i), 0);

		print_range(sequence(fd, SEND_QUEUE), before >> 6,
			    kernel_clock(CLOCK_REALTIME) >> 6);
	}
	printf("\n");
}

static void print_timestamps(void)
{
	printf("range-timestamps");
	for (uint32_t i = 0; i < SAMPLES; i++) {
		int fd = connected(0, i);
		uint64_t before = kernel_clock(CLOCK_MONOTONIC);
		uint32_t stamp = get_tcp(fd, TCP_TIMESTAMP);

		print_range(stamp, before / 1000000, kernel_clock(CLOCK_MONOTONIC) / 1000000 + 1);
	}
	printf("\n");
}

static void print_ports(void)
{
	printf("ports");
	for (uint32_t i = 0; i < SAMPLES; i++) {
		struct sockaddr_in own;
		int size = sizeof(own);

		OK(ob_sys_getsockname(connected(0, 10 + i), (void *)&own, &size));
		printf(" %d", ntohs(own.sin_port));
	}
	printf("\n");
}

static void write_setting(const char *path, const char *value)
{
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_WRONLY, 0));

	OK(ob_sys_write(fd, value, strlen(value)));
	OK(ob_sys_close(fd));
}

/* net/ipv4/syncookies.c adds the client's number. The highest byte counts minutes, too. */
static void print_cookies(void)
{
	write_setting("/proc/sys/net/ipv4/tcp_syncookies", "2");
	printf("cookies");
	for (uint16_t i = 0; i < SAMPLES; i++) {
		int fd = connected((uint16_t)(CLIENT_PORT + 100 + i), 0);

		printf(" %06x", (sequence(fd, RECEIVE_QUEUE) - sequence(fd, SEND_QUEUE)) &
			       0xffffff);
	}
	printf("\n");
}

/* Identifiers of datagrams that may be fragmented. */
static void print_identifiers(void)
{
	int raw = (int)OK(ob_sys_socket(AF_INET, SOCK_RAW, IPPROTO_UDP)), none = IP_PMTUDISC_DONT;
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));

	OK(ob_sys_setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, (void *)&none, sizeof(none)));
	printf("identifiers");
	for (uint32_t i = 0; i < SAMPLES; i++) {
		struct sockaddr_in to = at(i, SERVER_PORT);
		struct iphdr packet[4];

		OK(ob_sys_sendto(fd, "", 1, 0, (void *)&to, sizeof(to)));
		CHECK(OK(ob_sys_recvfrom(raw, packet, sizeof(packet), 0, NULL, NULL)) > 20);
		printf(" %d", ntohs(packet->id));
	}
	printf("\n");
}

static void print_file(const char *name, const char *path)
{
	char text[256] = "";

	CHECK(net_read_file(path, text, sizeof(text)));
	CHECK(strchr(text, '\n'));
	printf("%s %s", name, text);
}

static void print_link_local(const char *label, const char *device)
{
	char text[2048], *line;

	CHECK(net_read_file("/proc/net/if_inet6", text, sizeof(text)));
	line = strstr(text, device);
	CHECK(line);
	while (line > text && line[-1] != '\n')
		line--;
	CHECK(!strncmp(line, "fe80", 4));
	printf("%s %.32s\n", label, line);
}

/* Made of a secret of the network namespace and of the name, not of the MAC address. */
static void print_stable_address(void)
{
	write_setting("/proc/sys/net/ipv6/conf/default/addr_gen_mode", "3");
	net_make_dummy("test1");
	net_configure("test1", "mac=02:00:00:00:00:01,up");
	print_link_local("stable", "test1\n");
}

/* Of interfaces that components have made before the snapshot was saved. */
static void print_old_interfaces(void)
{
	print_file("bond", "/sys/class/net/bond0/address");
	print_file("ifb", "/sys/class/net/ifb0/address");
	net_configure("ip6tnl0", "up");
	net_configure("ip6gre0", "up");
	print_link_local("tunnel", "ip6tnl0\n");
	print_link_local("gre", "ip6gre0\n");
}

/* The first packet of a handshake: number of the sender and its key of this session. */
static void print_handshake(void)
{
	int peer = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in own = at(0, 3000), beyond = at(0, 9);
	uint8_t packet[256];

	OK(ob_sys_bind(peer, (void *)&own, sizeof(own)));
	net_make_wireguard("wg0", 1, 2, 3001, "127.0.0.1", 3000);
	net_configure("wg0", "ip=10.1.0.1/24");
	CHECK_EQUAL(inet_pton(AF_INET, "10.1.0.2", &beyond.sin_addr), 1);
	OK(ob_sys_sendto(fd, "", 1, 0, (void *)&beyond, sizeof(beyond)));
	CHECK_EQUAL(OK(ob_sys_recvfrom(peer, packet, sizeof(packet), 0, NULL, NULL)), 148);
	CHECK_EQUAL(packet[0], 1);
	printf("wireguard ");
	for (int i = 4; i < 40; i++)
		printf("%02x", packet[i]);
	printf("\n");
}

static void print_addresses(const char *hub)
{
	char description[300];
	int number;

	snprintf(description, sizeof(description), "hub:%s,ip=10.2.0.1/24", hub);
	number = ob_net_add(description, NULL);
	if (number < 0)
		fprintf(stderr, "%s\n", ob_net_error());
	CHECK(number >= 0);
	print_file("interface", "/sys/class/net/eth0/address");
	net_make_dummy("test0");
	print_file("dummy", "/sys/class/net/test0/address");
}

int main(int count, char *arguments[])
{
	CHECK_EQUAL(count, 2);
	client_boot(2);
	OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	net_configure("lo", "up");
	listening();
	print_file("fast-open", "/proc/sys/net/ipv4/tcp_fastopen_key");
	print_sequence_numbers();
	print_timestamps();
	print_ports();
	print_identifiers();
	print_cookies();
	print_old_interfaces();
	print_stable_address();
	print_handshake();
	print_addresses(arguments[1]);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
