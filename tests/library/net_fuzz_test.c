// SPDX-License-Identifier: GPL-2.0-only
/*
 * A kernel that receives the frames of net_fuzz_sender.c: net_fuzz_test DESCRIPTION
 *
 * Its servers make Linux look at what is in the packets: TCP with MPTCP, UDP, SCTP, VXLAN, VLAN,
 * and a socket that receives all packets. Prints "ready". When standard input ends, it checks that
 * the network works, and prints how many frames came.
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"
#include "net_fuzz_frames.h"
#include "net_links.h"
#include "net_message.h"

static void add_vlan_words(struct net_message *message)
{
	uint16_t id = 7;

	net_message_add(message, IFLA_VLAN_ID, &id, sizeof(id));
}

static void add_vxlan_words(struct net_message *message)
{
	struct in_addr peer = { htonl(0x0a010002) };
	uint16_t port = htons(4789);

	net_message_add_u32(message, IFLA_VXLAN_ID, 42);
	net_message_add(message, IFLA_VXLAN_GROUP, &peer, sizeof(peer));
	net_message_add(message, IFLA_VXLAN_PORT, &port, sizeof(port));
}

static void add_interfaces(const char *description)
{
	char words[400];
	int number;

	snprintf(words, sizeof(words),
		 "%s,name=fuzz0,mac=02:00:00:00:00:01,ip=10.1.0.1/24,ip=fd00::1/64", description);
	number = ob_net_add(words, NULL);
	if (number < 0)
		fprintf(stderr, "%s\n", ob_net_error());
	CHECK(number >= 0);
	net_make_link_with("vlan", "vlan7", "fuzz0", add_vlan_words);
	net_configure("vlan7", "ip=10.3.0.1/24");
	net_make_link_with("vxlan", "vxlan0", NULL, add_vxlan_words);
	net_configure("vxlan0", "ip=10.2.0.1/24");
}

/* Both families, at all addresses. */
static int serve(int type, int protocol)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(FUZZ_PORT) };
	int fd = (int)OK(ob_sys_socket(AF_INET6, type | SOCK_NONBLOCK, protocol));

	OK(ob_sys_bind(fd, (void *)&any, sizeof(any)));
	if (type != SOCK_DGRAM)
		OK(ob_sys_listen(fd, 128));
	return fd;
}

static void add_servers(void)
{
	OK(ob_sys_socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL)));
	OK(ob_sys_socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK, IPPROTO_ICMP));
	serve(SOCK_STREAM, IPPROTO_MPTCP);
	serve(SOCK_DGRAM, 0);
	serve(SOCK_STREAM, IPPROTO_SCTP);
}

static void check_that_it_works(void)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(FUZZ_PORT + 100),
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	int client = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0)), server;
	char text[4] = "";

	OK(ob_sys_bind(listener, (void *)&own, sizeof(own)));
	OK(ob_sys_listen(listener, 1));
	OK(ob_sys_connect(client, (void *)&own, sizeof(own)));
	server = (int)OK(ob_sys_accept4(listener, NULL, NULL, 0));
	OK(ob_sys_write(client, "abc", 3));
	CHECK_EQUAL(OK(ob_sys_read(server, text, sizeof(text))), 3);
	CHECK(!strcmp(text, "abc"));
}

/* The frames that came, once no more come for a quarter of a second: some may be in the ring. */
static void count_frames(char *text, size_t size)
{
	char before[64] = "";

	for (;;) {
		CHECK(net_read_file("/sys/class/net/fuzz0/statistics/rx_packets", text, size));
		if (!strcmp(text, before))
			return;
		strcpy(before, text);
		usleep(250000);
	}
}

int main(int count, char *words[])
{
	char text[64], byte;

	CHECK_EQUAL(count, 2);
	client_boot(2);
	add_interfaces(words[1]);
	add_servers();
	printf("ready\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	check_that_it_works();
	count_frames(text, sizeof(text));
	printf("%s", text);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
