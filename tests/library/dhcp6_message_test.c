// SPDX-License-Identifier: GPL-2.0-only
/*
 * The parser of DHCPv6 replies: known replies, then damaged ones. Needs no kernel; the test links
 * the parser's sources with sanitizers.
 *
 *   dhcp6_message_test COUNT      tries so many damaged replies
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "check.h"
#include "dhcp6_message.h"
#include "dhcp_sane.h"

#define HOUR 0, 0, 0x0e, 0x10
#define ADDRESS(last) 0xfd, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last

static const struct ob_dhcp6_request request = {
	.type = OB_DHCP6_REQUEST,
	.transaction = 0x12345678,
	.mac = { 2, 0, 0, 0, 0, 1 },
	.address = { AF_INET6, 128, { ADDRESS(0x77) } },
};

struct packet {
	uint8_t bytes[4000];
	size_t size;
};

static void put_bytes(struct packet *packet, const void *value, size_t bytes)
{
	memcpy(packet->bytes + packet->size, value, bytes);
	packet->size += bytes;
}

static void put(struct packet *packet, uint8_t option, const void *value, size_t bytes)
{
	put_bytes(packet, (uint8_t[]){ 0, option, (uint8_t)(bytes >> 8), (uint8_t)bytes }, 4);
	put_bytes(packet, value, bytes);
}

#define PUT(packet, option, ...) \
	put(packet, option, (uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }))

static void begin(struct packet *packet, uint8_t type)
{
	packet->size = 0;
	put_bytes(packet, (uint8_t[]){ type, 0x34, 0x56, 0x78 }, 4);
	PUT(packet, 1, 0, 3, 0, 1, 2, 0, 0, 0, 0, 1);
	PUT(packet, 2, 0, 3, 0, 1, 2, 0, 0, 0, 0, 9);
}

static bool read_packet(const struct packet *packet, struct ob_dhcp6_reply *reply)
{
	/* Exactly its bytes, so that the sanitizer sees an access behind them. */
	uint8_t *copy = malloc(packet->size ? packet->size : 1);
	bool right;

	CHECK(copy);
	memcpy(copy, packet->bytes, packet->size);
	right = ob_dhcp6_read(copy, packet->size, &request, reply);
	free(copy);
	return right;
}

static void expect_address(const struct ob_net_address *address, const char *wanted)
{
	char text[OB_NET_ADDRESS_TEXT] = "(none)";

	if (address->family)
		ob_net_address_text(address, true, text);
	if (strcmp(text, wanted)) {
		fprintf(stderr, "%s, not %s\n", text, wanted);
		_Exit(1);
	}
}

static void make_whole(struct packet *packet)
{
	begin(packet, OB_DHCP6_REPLY);
	PUT(packet, 3, 0, 0, 0, 1, 0, 0, 0x03, 0xe8, 0, 0, 0x07, 0xd0,
	    0, 5, 0, 24, ADDRESS(0x77), HOUR, 0, 0, 0x1c, 0x20);
	PUT(packet, 23, ADDRESS(0x53), 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
	    ADDRESS(0x54), 1, 2);
	PUT(packet, 7, 9);
	PUT(packet, 13, 0, 0, 'o', 'k');
	PUT(packet, 200, 1, 2, 3);
}

static void test_whole(void)
{
	struct ob_dhcp6_reply reply;
	struct packet packet;

	make_whole(&packet);
	CHECK(read_packet(&packet, &reply));
	CHECK_EQUAL(reply.type, OB_DHCP6_REPLY);
	CHECK_EQUAL(reply.server.size, 10);
	CHECK_EQUAL(reply.server.bytes[9], 9);
	CHECK_EQUAL(reply.preference, 9);
	CHECK(reply.has_association);
	expect_address(&reply.address, "fd00:7::77/128");
	CHECK_EQUAL(reply.preferred, 3600);
	CHECK_EQUAL(reply.valid, 7200);
	CHECK_EQUAL(reply.renew, 1000000);
	CHECK_EQUAL(reply.rebind, 2000000);
	CHECK_EQUAL(reply.refresh, 86400000);
	/* Without the link's name an address of the link is of no use. */
	CHECK_EQUAL(reply.servers.count, 2);
	expect_address(&reply.servers.list[1], "fd00:7::54/128");
}

/* The client's own address comes before others; the first usable one before those behind it. */
static void test_several_addresses(void)
{
	struct ob_dhcp6_reply reply;
	struct packet packet;

	begin(&packet, OB_DHCP6_REPLY);
	PUT(&packet, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
	    0, 5, 0, 24, ADDRESS(1), HOUR, 0, 0, 0, 0,
	    0, 5, 0, 30, ADDRESS(2), HOUR, HOUR, 0, 13, 0, 2, 0, 4,
	    0, 5, 0, 24, ADDRESS(3), HOUR, HOUR,
	    0, 5, 0, 24, ADDRESS(0x77), HOUR, 0, 0, 0x1c, 0x20,
	    0, 5, 0, 24, ADDRESS(5), HOUR, HOUR);
	CHECK(read_packet(&packet, &reply));
	expect_address(&reply.address, "fd00:7::77/128");
	CHECK_EQUAL(reply.valid, 7200);
	packet.bytes[packet.size - 28 - 24 + 15] = 0x76;
	CHECK(read_packet(&packet, &reply));
	expect_address(&reply.address, "fd00:7::3/128");
	CHECK_EQUAL(reply.valid, 3600);
}

/* An association that another client has, that refuses, or whose times contradict each other. */
static void test_no_address(void)
{
	struct ob_dhcp6_reply reply;
	struct packet packet;

	begin(&packet, OB_DHCP6_REPLY);
	PUT(&packet, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 0, 2, 0, 2);
	CHECK(read_packet(&packet, &reply));
	CHECK(reply.has_association);
	expect_address(&reply.address, "(none)");
	begin(&packet, OB_DHCP6_REPLY);
	PUT(&packet, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 24, ADDRESS(1), HOUR, HOUR);
	PUT(&packet, 3, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 8, 0, 5, 0, 24, ADDRESS(1), HOUR, HOUR);
	CHECK(read_packet(&packet, &reply));
	CHECK(!reply.has_association);
	expect_address(&reply.address, "(none)");
}

static void make_times(struct packet *packet, uint8_t renew, uint8_t rebind, uint8_t preferred,
		       uint8_t valid)
{
	begin(packet, OB_DHCP6_REPLY);
	PUT(packet, 3, 0, 0, 0, 1, 0, 0, 0, renew, 0, 0, 0, rebind,
	    0, 5, 0, 24, ADDRESS(1), 0, 0, 0, preferred, 0, 0, 0, valid);
}

static void expect_times(struct packet *packet, long renew, long rebind)
{
	struct ob_dhcp6_reply reply;

	CHECK(read_packet(packet, &reply));
	expect_address(&reply.address, "fd00:7::1/128");
	CHECK_EQUAL(reply.renew, renew);
	CHECK_EQUAL(reply.rebind, rebind);
}

static void test_times(void)
{
	struct ob_dhcp6_reply reply;
	struct packet packet;

	/* The server leaves them to the client. */
	make_times(&packet, 0, 0, 100, 200);
	expect_times(&packet, 50000, 80000);
	make_times(&packet, 0, 0, 0, 1);
	expect_times(&packet, 500, 800);
	/* After the end of the lease. */
	make_times(&packet, 90, 250, 50, 100);
	expect_times(&packet, 80000, 80000);
	make_times(&packet, 90, 0, 50, 100);
	expect_times(&packet, 40000, 40000);
	begin(&packet, OB_DHCP6_REPLY);
	PUT(&packet, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0,
	    0, 5, 0, 24, ADDRESS(1), 255, 255, 255, 255, 255, 255, 255, 255);
	CHECK(read_packet(&packet, &reply));
	CHECK_EQUAL(reply.valid, OB_DHCP6_INFINITE);
	CHECK(reply.renew == OB_NEVER && reply.rebind == OB_NEVER);
	/* Refresh: not too often. */
	begin(&packet, OB_DHCP6_REPLY);
	PUT(&packet, 32, 0, 0, 0, 1);
	CHECK(read_packet(&packet, &reply));
	CHECK_EQUAL(reply.refresh, 600000);
}

#define EXPECT_REFUSED(...)                                     \
	do {                                                    \
		make_whole(&packet);                            \
		__VA_ARGS__;                                    \
		CHECK(!read_packet(&packet, &reply) && #__VA_ARGS__); \
	} while (0)

static void test_refused(void)
{
	struct ob_dhcp6_reply reply;
	struct packet packet;

	/* A request, another transaction's, another client's. */
	EXPECT_REFUSED(packet.bytes[0] = OB_DHCP6_REQUEST);
	EXPECT_REFUSED(packet.bytes[3] ^= 1);
	EXPECT_REFUSED(packet.bytes[17] ^= 1);
	/* Options that are longer than the message, or than the option around them. */
	EXPECT_REFUSED(packet.size--);
	EXPECT_REFUSED(packet.size = 5);
	EXPECT_REFUSED(packet.size = 3);
	EXPECT_REFUSED(packet.size = 0);
	EXPECT_REFUSED(packet.bytes[51]++);
	EXPECT_REFUSED(packet.bytes[51]--);
	/* A failure; an empty status, association, preference. */
	EXPECT_REFUSED(PUT(&packet, 13, 0, 1));
	EXPECT_REFUSED(put(&packet, 13, "", 0));
	EXPECT_REFUSED(put(&packet, 3, "", 0));
	EXPECT_REFUSED(put(&packet, 7, "", 0));
	EXPECT_REFUSED(PUT(&packet, 32, 1));
	/* Two servers; none; one without a name, with too long a name. */
	EXPECT_REFUSED(PUT(&packet, 2, 1, 2, 3, 4));
	EXPECT_REFUSED(packet.bytes[19] = 99);
	EXPECT_REFUSED(packet.bytes[19] = 99; PUT(&packet, 2, 1, 2));
	EXPECT_REFUSED(packet.bytes[19] = 99; put(&packet, 2, packet.bytes, 131));
	/* Nobody's. */
	EXPECT_REFUSED(packet.bytes[5] = 99);
}

static void expect_unusable(uint8_t first, uint8_t second, uint8_t last)
{
	struct ob_dhcp6_reply reply;
	struct packet packet;

	make_whole(&packet);
	packet.bytes[52] = first;
	packet.bytes[53] = second;
	packet.bytes[55] = 0;
	packet.bytes[67] = last;
	CHECK(read_packet(&packet, &reply));
	expect_address(&reply.address, "(none)");
}

static void test_unusable(void)
{
	expect_unusable(0, 0, 0);
	expect_unusable(0, 0, 1);
	expect_unusable(0xff, 2, 1);
	expect_unusable(0xfe, 0x80, 1);
}

static void damage(struct packet *packet)
{
	for (int changes = 1 + rand() % 8; changes; changes--) {
		/* Mostly behind the names of client and server: the rest is soon refused. */
		size_t from = rand() % 16 ? 32 : 0;
		size_t at = from + (size_t)rand() % (packet->size - from);

		packet->bytes[at] = (uint8_t)(rand() % 3 ? rand() : rand() % 32);
	}
	if (!(rand() % 8))
		packet->size = (size_t)rand() % (packet->size + 1);
}

static void make_seed(struct packet *packet)
{
	uint8_t inner[200];
	size_t size = 12 + (size_t)rand() % 4 * 28;

	if (rand() % 2) {
		make_whole(packet);
		return;
	}
	begin(packet, rand() % 2 ? OB_DHCP6_ADVERTISE : OB_DHCP6_REPLY);
	for (size_t i = 0; i < sizeof(inner); i++)
		inner[i] = (uint8_t)rand();
	memcpy(inner, (uint8_t[]){ 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0 }, 12);
	for (size_t at = 12; at < size; at += 28)
		memcpy(inner + at, (uint8_t[]){ 0, 5, 0, 24 }, 4);
	put(packet, 3, inner, size);
	put(packet, 23, inner, (size_t)rand() % sizeof(inner));
}

static void test_damaged(long count)
{
	struct ob_dhcp6_reply reply;
	long accepted = 0, with_address = 0;
	struct packet packet;

	for (long i = 0; i < count; i++) {
		make_seed(&packet);
		damage(&packet);
		if (!read_packet(&packet, &reply))
			continue;
		check_sane_reply6(&reply);
		accepted++;
		with_address += reply.address.family != 0;
	}
	/* The test is of use only if enough of them get far. */
	CHECK(accepted > count / 20 && accepted < count && with_address > count / 50);
	printf("%ld of %ld, %ld with an address\n", accepted, count, with_address);
}

/* A request has the form of a reply, but for its type and the name of the server. */
static void test_requests(void)
{
	struct ob_dhcp6_request own = request;
	struct ob_dhcp6_reply reply;
	struct packet packet;

	own.elapsed = 0x1234;
	own.server.size = OB_DHCP6_DUID_MOST;
	packet.size = ob_dhcp6_write(&own, packet.bytes);
	CHECK(packet.size <= OB_DHCP6_REQUEST_BYTES);
	CHECK_EQUAL(packet.bytes[0], OB_DHCP6_REQUEST);
	CHECK(!memcmp(packet.bytes + 18, (uint8_t[]){ 0, 8, 0, 2, 0x12, 0x34 }, 6));
	packet.bytes[0] = OB_DHCP6_REPLY;
	CHECK(read_packet(&packet, &reply));
	CHECK_EQUAL(reply.server.size, OB_DHCP6_DUID_MOST);
	CHECK(reply.has_association && !reply.address.family);
	own.type = OB_DHCP6_INFORMATION;
	own.server = (struct ob_dhcp6_duid){ 3, { 1, 2, 3 } };
	packet.size = ob_dhcp6_write(&own, packet.bytes);
	packet.bytes[0] = OB_DHCP6_REPLY;
	CHECK(read_packet(&packet, &reply));
	CHECK(!reply.has_association);
}

int main(int count, char **arguments)
{
	CHECK(count == 2);
	srand(1);
	test_whole();
	test_several_addresses();
	test_no_address();
	test_times();
	test_refused();
	test_unusable();
	test_requests();
	test_damaged(atol(arguments[1]));
	return 0;
}
