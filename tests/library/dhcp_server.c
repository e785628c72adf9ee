// SPDX-License-Identifier: GPL-2.0-only
/* See dhcp_server.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"
#include "dhcp_server.h"
#include "net_far_end.h"
#include "net_links.h"

#define LINK "eth7"
#define PEER "server7"

struct dhcp_server dhcp_server = { .lease = 3600, .host = 77 };

static const uint8_t own[4] = { 10, 5, 0, 1 };

void dhcp_server_option(uint8_t number, const void *value, uint8_t bytes)
{
	uint8_t *at = dhcp_server.options + dhcp_server.option_bytes;

	at[0] = number;
	at[1] = bytes;
	memcpy(at + 2, value, bytes);
	dhcp_server.option_bytes += 2 + bytes;
}

static int make_reply(const uint8_t *request, uint8_t type, uint8_t *reply)
{
	uint32_t lease = htonl(dhcp_server.lease);
	uint8_t *at = reply + 240;
	const uint8_t head[] = { 53, 1, type, 54, 4, own[0], own[1], own[2], own[3] };
	const uint8_t mask[] = { 1, 4, 255, 255, 255, 0, 51, 4 };

	memset(reply, 0, 600);
	memcpy(reply, request, 44);
	reply[0] = 2;
	if (type != 6)
		memcpy(reply + 16, (uint8_t[]){ 10, 5, 0, dhcp_server.host }, 4);
	memcpy(reply + 236, request + 236, 4);
	memcpy(at, head, sizeof(head));
	at += sizeof(head);
	if (type != 6) {
		memcpy(at, mask, sizeof(mask));
		memcpy(at + sizeof(mask), &lease, 4);
		at += sizeof(mask) + 4;
		memcpy(at, dhcp_server.options, (size_t)dhcp_server.option_bytes);
		at += dhcp_server.option_bytes;
	}
	*at++ = 255;
	return (int)(at - reply);
}

/* The value of a request's option, or NULL. */
static const uint8_t *option(const uint8_t *request, long size, uint8_t wanted)
{
	for (long at = 240; at + 1 < size && request[at] != 255;
	     at += request[at] ? 2 + request[at + 1] : 1)
		if (request[at] == wanted)
			return request + at + 2;
	return NULL;
}

static void send_reply(int fd, const uint8_t *reply, int size, uint32_t client)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(68),
		.sin_addr.s_addr = client ? client : INADDR_BROADCAST,
	};

	/* The test may halt the kernel as soon as the client has the reply. */
	CHECK(ob_sys_sendto(fd, (void *)reply, (size_t)size, 0, (void *)&to, sizeof(to)) >= 0 ||
	      errno == ENODEV);
}

/* Damages the reply at random places: the client must not use it, or it is another reply. */
static void send_wrong(int fd, const uint8_t *reply, int size, uint32_t client)
{
	uint8_t damaged[600];

	for (int i = 0; i < dhcp_server.wrong; i++) {
		memcpy(damaged, reply, sizeof(damaged));
		/* Never the right magic: so it cannot be taken for a reply by chance. */
		damaged[236 + rand() % 4] ^= (uint8_t)(1 + rand() % 255);
		for (int changes = rand() % 16; changes; changes--)
			damaged[rand() % size] = (uint8_t)rand();
		if (memcmp(damaged + 236, reply + 236, 4))
			send_reply(fd, damaged, 1 + rand() % size, client);
		/* The client reads: a full buffer of its socket would lose the right reply. */
		if (i % 50 == 49)
			usleep(2000);
	}
}

static void count(const uint8_t *request, uint8_t type, bool to_all)
{
	if (type == 1)
		dhcp_server.discovers++;
	else if (type == 7)
		dhcp_server.releases++;
	else if (!memcmp(request + 12, (uint8_t[4]){ 0 }, 4))
		dhcp_server.requests++;
	else if (to_all)
		dhcp_server.rebinds++;
	else
		dhcp_server.renewals++;
}

static void answer(int fd, const uint8_t *request, long size, bool to_all)
{
	const uint8_t *type = option(request, size, 53);
	uint8_t reply[600], answer_type;
	uint32_t client;
	int bytes;

	CHECK(type && size >= 300 && request[0] == 1);
	CHECK(!memcmp(option(request, size, 61) + 1, request + 28, 6));
	memcpy(&client, request + 12, 4);
	count(request, *type, to_all);
	if (dhcp_server.mode == DHCP_SILENT || *type == 7)
		return;
	answer_type = *type == 1 ? 2 : 5;
	if (*type == 3 && dhcp_server.mode != DHCP_ANSWER) {
		answer_type = 6;
		if (dhcp_server.mode == DHCP_REFUSE_ONCE) {
			dhcp_server.mode = DHCP_ANSWER;
			dhcp_server.host++;
		}
	}
	bytes = make_reply(request, answer_type, reply);
	send_wrong(fd, reply, bytes, client);
	send_reply(fd, reply, bytes, client);
}

static int open_socket(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(67) };
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0)), one = 1, index = net_index(PEER);

	OK(ob_sys_setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one)));
	OK(ob_sys_setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index)));
	OK(ob_sys_setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one)));
	OK(ob_sys_bind(fd, (void *)&address, sizeof(address)));
	return fd;
}

/* Whether the packet was sent to everybody. */
static bool was_to_all(struct msghdr *header)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(header);
	struct in_pktinfo info;

	CHECK(control && control->cmsg_type == IP_PKTINFO);
	memcpy(&info, CMSG_DATA(control), sizeof(info));
	return info.ipi_addr.s_addr == INADDR_BROADCAST;
}

static void serve(int fd)
{
	for (;;) {
		uint8_t request[1500];
		char control[128];
		struct iovec piece = { request, sizeof(request) };
		struct msghdr header = {
			.msg_iov = &piece, .msg_iovlen = 1,
			.msg_control = control, .msg_controllen = sizeof(control),
		};
		long size = ob_sys_recvmsg(fd, (void *)&header, 0);

		if (size < 0)
			return;
		answer(fd, request, size, was_to_all(&header));
	}
}

void dhcp_server_start(void)
{
	static const struct net_far_end far_end = {
		.link = LINK, .peer = PEER, .address = "ip=10.5.0.1/24",
		.open = open_socket, .serve = serve,
	};

	net_far_end_start(&far_end);
}
