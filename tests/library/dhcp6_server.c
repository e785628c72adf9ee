// SPDX-License-Identifier: GPL-2.0-only
/* See dhcp6_server.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"
#include "dhcp6_server.h"
#include "net_far_end.h"
#include "net_links.h"

#define LINK "eth7"
#define PEER "server7"

enum type { SOLICIT = 1, ADVERTISE, REQUEST, RENEW = 5, REBIND, REPLY, RELEASE, INFORMATION = 11 };

struct dhcp6_server dhcp6_server = { .valid = 3600, .host = 0x77, .preference = 255 };

static const uint8_t own[] = { 0, 3, 0, 1, 2, 0, 0, 0, 0, 9 };
static const uint8_t rival[] = { 0, 2, 0, 0, 0, 1, 7, 7, 7 };

struct message {
	uint8_t bytes[1200];
	int size;
};

static void put(struct message *message, uint8_t option, const void *value, int bytes)
{
	uint8_t head[] = { 0, option, 0, (uint8_t)bytes };

	memcpy(message->bytes + message->size, head, 4);
	memcpy(message->bytes + message->size + 4, value, (size_t)bytes);
	message->size += 4 + bytes;
}

void dhcp6_server_option(uint8_t number, const void *value, uint8_t bytes)
{
	struct message message = { .size = 0 };

	put(&message, number, value, bytes);
	memcpy(dhcp6_server.options + dhcp6_server.option_bytes, message.bytes,
	       (size_t)message.size);
	dhcp6_server.option_bytes += message.size;
}

/* The value of a request's option, or NULL. */
static const uint8_t *option(const uint8_t *request, long size, uint8_t wanted, int *bytes)
{
	for (long at = 4; at + 4 <= size; at += 4 + (request[at + 2] << 8 | request[at + 3])) {
		*bytes = request[at + 2] << 8 | request[at + 3];
		if (request[at + 1] == wanted)
			return request + at + 4;
	}
	return NULL;
}

/* `number`: that the client gave its association. */
static void put_address(struct message *message, const uint8_t *number, uint8_t host)
{
	uint8_t value[12 + 28] = { 0 }, *address = value + 16;
	uint32_t valid = htonl(dhcp6_server.valid);

	memcpy(value, number, 4);
	value[13] = 5;
	value[15] = 24;
	memcpy(address, (uint8_t[]){ 0xfd, 0, 0, 7 }, 4);
	address[15] = host;
	memcpy(address + 16, &valid, 4);
	memcpy(address + 20, &valid, 4);
	put(message, 3, value, sizeof(value));
}

static void put_refusal(struct message *message, const uint8_t *number)
{
	uint8_t value[12 + 6] = { 0 };

	memcpy(value, number, 4);
	value[13] = 13;
	value[15] = 2;
	value[17] = 2;
	put(message, 3, value, sizeof(value));
}

static void begin(struct message *reply, uint8_t type, const uint8_t *request, long size)
{
	const uint8_t *client;
	int bytes;

	client = option(request, size, 1, &bytes);
	CHECK(client && bytes == 10);
	memset(reply, 0, sizeof(*reply));
	memcpy(reply->bytes, request, 4);
	reply->bytes[0] = type;
	reply->size = 4;
	put(reply, 1, client, bytes);
}

static void send_reply(int fd, const struct message *reply, const struct sockaddr_in6 *client)
{
	/* The test may halt the kernel as soon as the client has the reply. */
	CHECK(ob_sys_sendto(fd, (void *)reply->bytes, (size_t)reply->size, 0, (void *)client,
			    sizeof(*client)) >= 0 || errno == ENODEV);
}

/* Damages the reply at random places. */
static void send_wrong(int fd, const struct message *reply, const struct sockaddr_in6 *client)
{
	struct message damaged;

	for (int i = 0; i < dhcp6_server.wrong; i++) {
		damaged = *reply;
		for (int changes = rand() % 16; changes; changes--)
			damaged.bytes[4 + rand() % (damaged.size - 4)] = (uint8_t)rand();
		/* Never the right transaction: so it cannot be taken for a reply by chance. */
		damaged.bytes[1 + rand() % 3] ^= (uint8_t)(1 + rand() % 255);
		damaged.size = 1 + rand() % damaged.size;
		send_reply(fd, &damaged, client);
		/* The client reads: a full buffer of its socket would lose the right reply. */
		if (i % 50 == 49)
			usleep(2000);
	}
}

static void count(uint8_t type)
{
	if (type == SOLICIT)
		dhcp6_server.solicits++;
	else if (type == REQUEST)
		dhcp6_server.requests++;
	else if (type == RENEW)
		dhcp6_server.renewals++;
	else if (type == REBIND)
		dhcp6_server.rebinds++;
	else if (type == RELEASE)
		dhcp6_server.releases++;
	else if (type == INFORMATION)
		dhcp6_server.informations++;
}

static bool refuses(uint8_t type)
{
	if (type == SOLICIT || dhcp6_server.mode == DHCP6_ANSWER)
		return false;
	if (dhcp6_server.mode == DHCP6_REFUSE_ONCE) {
		dhcp6_server.mode = DHCP6_ANSWER;
		dhcp6_server.host++;
	}
	return true;
}

static void advertise_rival(int fd, const uint8_t *request, long size, const uint8_t *number,
			    const struct sockaddr_in6 *client)
{
	struct message offer;

	begin(&offer, ADVERTISE, request, size);
	put(&offer, 2, rival, sizeof(rival));
	put_address(&offer, number, 0x66);
	send_reply(fd, &offer, client);
}

/* A message to a server that is not this one, if it must name one. */
static void check_server(uint8_t type, const uint8_t *server, int bytes)
{
	if (type == SOLICIT || type == REBIND || type == INFORMATION)
		CHECK(!server);
	else
		CHECK(server && bytes == sizeof(own) && !memcmp(server, own, sizeof(own)));
}

static void answer(int fd, const uint8_t *request, long size, const struct sockaddr_in6 *client)
{
	uint8_t type = request[0];
	const uint8_t *server, *number;
	struct message reply;
	int bytes;

	count(type);
	server = option(request, size, 2, &bytes);
	check_server(type, server, bytes);
	CHECK(option(request, size, 8, &bytes) && bytes == 2);
	number = option(request, size, 3, &bytes);
	CHECK(!number == (type == INFORMATION));
	if (dhcp6_server.mode == DHCP6_SILENT || type == RELEASE)
		return;
	if (type == SOLICIT && dhcp6_server.has_rival)
		advertise_rival(fd, request, size, number, client);
	begin(&reply, type == SOLICIT ? ADVERTISE : REPLY, request, size);
	put(&reply, 2, own, sizeof(own));
	if (type == SOLICIT)
		put(&reply, 7, (const void *)&dhcp6_server.preference, 1);
	if (number && refuses(type))
		put_refusal(&reply, number);
	else if (number)
		put_address(&reply, number, dhcp6_server.host);
	memcpy(reply.bytes + reply.size, dhcp6_server.options, (size_t)dhcp6_server.option_bytes);
	reply.size += dhcp6_server.option_bytes;
	send_wrong(fd, &reply, client);
	send_reply(fd, &reply, client);
}

static void announce(int fd)
{
	uint8_t announcement[] = {
		134, 0, 0, 0, 64, dhcp6_server.flags, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0,
		3, 4, 64, 0xc0, 0, 0, 0x10, 0, 0, 0, 0x10, 0, 0, 0, 0, 0,
		0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	};
	struct sockaddr_in6 all = { .sin6_family = AF_INET6 };

	CHECK(inet_pton(AF_INET6, "ff02::1", &all.sin6_addr) == 1);
	all.sin6_scope_id = (uint32_t)net_index(PEER);
	/* Fails before the cable's other end is up. */
	ob_sys_sendto(fd, (void *)announcement,
		      dhcp6_server.prefix ? sizeof(announcement) : 16, 0, (void *)&all,
		      sizeof(all));
}

static int open_socket(void)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = htons(547) };
	struct ipv6_mreq group = { .ipv6mr_interface = (unsigned int)net_index(PEER) };
	int fd = (int)OK(ob_sys_socket(AF_INET6, SOCK_DGRAM, 0)), index = net_index(PEER);

	CHECK(inet_pton(AF_INET6, "ff02::1:2", &group.ipv6mr_multiaddr) == 1);
	OK(ob_sys_setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &index, sizeof(index)));
	OK(ob_sys_setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof(group)));
	OK(ob_sys_bind(fd, (void *)&address, sizeof(address)));
	return fd;
}

static void serve(int fd)
{
	int router = (int)OK(ob_sys_socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6)), hops = 255;

	OK(ob_sys_setsockopt(router, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, &hops, sizeof(hops)));
	for (;;) {
		struct pollfd waiting = { .fd = fd, .events = POLLIN };
		long ready = ob_sys_poll((void *)&waiting, 1, 100);
		struct sockaddr_in6 client;
		int room = sizeof(client);
		uint8_t request[1500];
		long size;

		if (ready < 0)
			return;
		if (dhcp6_server.announces)
			announce(router);
		if (!ready)
			continue;
		size = ob_sys_recvfrom(fd, request, sizeof(request), 0, (void *)&client, &room);
		if (size < 0)
			return;
		answer(fd, request, size, &client);
	}
}

void dhcp6_server_start(void)
{
	static const struct net_far_end far_end = {
		.link = LINK, .peer = PEER, .address = "ip=fd00:7::1/64",
		.open = open_socket, .serve = serve,
	};

	net_far_end_start(&far_end);
}
