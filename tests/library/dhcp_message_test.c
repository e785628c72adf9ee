// SPDX-License-Identifier: GPL-2.0-only
/*
 * The parser of DHCP replies: known replies, then damaged ones. Needs no kernel; the test links the
 * parser's sources with sanitizers.
 *
 *   dhcp_message_test COUNT      tries so many damaged replies
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "check.h"
#include "dhcp_message.h"
#include "dhcp_sane.h"

#define TRANSACTION 0x12345678u
#define HEADERS 28

static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 };

/* A reply with its headers, as it is being made. */
struct packet {
	uint8_t bytes[1200];
	size_t size;
};

static void put(struct packet *packet, uint8_t option, const void *value, uint8_t bytes)
{
	packet->bytes[packet->size++] = option;
	packet->bytes[packet->size++] = bytes;
	memcpy(packet->bytes + packet->size, value, bytes);
	packet->size += bytes;
}

#define PUT(packet, option, ...) \
	put(packet, option, (uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }))

static void begin(struct packet *packet, uint8_t type)
{
	static const uint8_t head[] = { 2, 1, 6, 0, 0x12, 0x34, 0x56, 0x78 };
	uint8_t *message = packet->bytes + HEADERS;

	memset(packet, 0, sizeof(*packet));
	memcpy(message, head, sizeof(head));
	memcpy(message + 16, (uint8_t[]){ 10, 5, 0, 77 }, 4);
	memcpy(message + 28, mac, 6);
	memcpy(message + 236, (uint8_t[]){ 99, 130, 83, 99 }, 4);
	packet->size = HEADERS + 240;
	PUT(packet, 53, type);
	PUT(packet, 54, 10, 5, 0, 1);
}

static uint32_t add_words(uint32_t sum, const uint8_t *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
	return sum;
}

static void put_sum(uint8_t *at, uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	at[0] = (uint8_t)(~sum >> 8);
	at[1] = (uint8_t)~sum;
}

/* Writes the headers, with the right checksums. */
static void wrap(struct packet *packet)
{
	uint8_t *ip = packet->bytes, *udp = ip + 20;
	size_t length = packet->size - 20;

	memset(ip, 0, HEADERS);
	memcpy(ip, (uint8_t[]){ 0x45, 0, (uint8_t)(packet->size >> 8), (uint8_t)packet->size },
	       4);
	memcpy(ip + 8, (uint8_t[]){ 64, 17, 0, 0, 10, 5, 0, 1, 255, 255, 255, 255 }, 12);
	put_sum(ip + 10, add_words(0, ip, 20));
	memcpy(udp, (uint8_t[]){ 0, 67, 0, 68, (uint8_t)(length >> 8), (uint8_t)length }, 6);
	put_sum(udp + 6, add_words((uint32_t)(17 + length), ip + 12, packet->size - 12));
}

static void end(struct packet *packet)
{
	packet->bytes[packet->size++] = 255;
	wrap(packet);
}

static bool read_packet(const struct packet *packet, struct ob_dhcp_reply *reply)
{
	/* Exactly its bytes, so that the sanitizer sees an access behind them. */
	uint8_t *copy = malloc(packet->size ? packet->size : 1);
	const uint8_t *message;
	size_t size;
	bool right;

	CHECK(copy);
	memcpy(copy, packet->bytes, packet->size);
	message = ob_dhcp_find_message(copy, packet->size, true, &size);
	right = message && ob_dhcp_read(message, size, TRANSACTION, mac, reply);
	free(copy);
	return right;
}

static void expect_address(const struct ob_net_address *address, const char *wanted)
{
	char text[OB_NET_ADDRESS_TEXT];

	if (strcmp(ob_net_address_text(address, true, text), wanted)) {
		fprintf(stderr, "%s, not %s\n", text, wanted);
		_Exit(1);
	}
}

static void make_whole(struct packet *packet)
{
	begin(packet, OB_DHCP_ACK);
	PUT(packet, 1, 255, 255, 255, 0);
	PUT(packet, 3, 10, 5, 0, 1);
	PUT(packet, 6, 10, 5, 0, 53, 127, 0, 0, 1, 10, 5, 0, 54, 1);
	PUT(packet, 26, 0x05, 0x78);
	PUT(packet, 51, 0, 0, 0x0e, 0x10);
	PUT(packet, 0x80, 1, 2, 3);
	end(packet);
}

static void test_whole(void)
{
	struct ob_dhcp_reply reply;
	struct packet packet;

	make_whole(&packet);
	CHECK(read_packet(&packet, &reply));
	CHECK_EQUAL(reply.type, OB_DHCP_ACK);
	expect_address(&reply.address, "10.5.0.77/24");
	CHECK_EQUAL(reply.lease, 3600);
	CHECK_EQUAL(reply.renew, 1800000);
	CHECK_EQUAL(reply.rebind, 3150000);
	CHECK_EQUAL(reply.mtu, 1400);
	CHECK_EQUAL(reply.servers.count, 2);
	expect_address(&reply.servers.list[1], "10.5.0.54/32");
	CHECK_EQUAL(reply.route_count, 1);
	expect_address(&reply.routes[0].gateway, "10.5.0.1/32");
	CHECK(!reply.routes[0].on_link && !reply.routes[0].destination.prefix);
}

/* Options in the fields of the file and the server's name; one option in two parts. */
static void test_overload(void)
{
	static const uint8_t lease[] = { 51, 4, 0xff, 0xff, 0xff, 0xff, 121, 4, 24, 10, 9, 0, 255 };
	static const uint8_t rest[] = { 121, 4, 10, 99, 0, 1, 255 };
	struct ob_dhcp_reply reply;
	struct packet packet;

	begin(&packet, OB_DHCP_OFFER);
	PUT(&packet, 52, 3);
	memcpy(packet.bytes + HEADERS + 108, lease, sizeof(lease));
	memcpy(packet.bytes + HEADERS + 44, rest, sizeof(rest));
	end(&packet);
	CHECK(read_packet(&packet, &reply));
	CHECK_EQUAL(reply.lease, OB_DHCP_INFINITE);
	CHECK(reply.renew == OB_NEVER);
	expect_address(&reply.address, "10.5.0.77/8");
	CHECK_EQUAL(reply.route_count, 1);
	expect_address(&reply.routes[0].destination, "10.9.0.0/24");
	expect_address(&reply.routes[0].gateway, "10.99.0.1/32");
	CHECK(!reply.routes[0].on_link);
	/* A route that is cut off is none, nor are those behind it. */
	begin(&packet, OB_DHCP_OFFER);
	PUT(&packet, 51, 0, 0, 0, 9);
	PUT(&packet, 121, 8, 11, 10, 5, 0, 1, 24, 10, 9, 0, 10, 5);
	end(&packet);
	CHECK(read_packet(&packet, &reply));
	CHECK_EQUAL(reply.route_count, 1);
	/* Without the option that says so, these fields have no options. */
	begin(&packet, OB_DHCP_OFFER);
	memcpy(packet.bytes + HEADERS + 108, lease, sizeof(lease));
	end(&packet);
	CHECK(!read_packet(&packet, &reply));
}

/* An acknowledgement with a router and this option of classless routes. Returns its routes. */
static struct ob_dhcp_reply routes_beside_a_router(const uint8_t *routes, uint8_t length)
{
	struct ob_dhcp_reply reply;
	struct packet packet;

	begin(&packet, OB_DHCP_ACK);
	PUT(&packet, 51, 0, 0, 0, 9);
	PUT(&packet, 3, 10, 5, 0, 1);
	put(&packet, 121, routes, length);
	end(&packet);
	CHECK(read_packet(&packet, &reply));
	return reply;
}

#define ROUTES(...) \
	routes_beside_a_router((const uint8_t[]){ __VA_ARGS__ }, \
			       sizeof((const uint8_t[]){ __VA_ARGS__ }))

/* A broken list of routes hides no router, unless it has a default route. */
static void test_broken_routes(void)
{
	struct ob_dhcp_reply reply;

	reply = ROUTES(8, 11, 10, 5, 0, 2, 33, 10, 9, 0, 0, 0, 10, 5, 0, 3);
	CHECK_EQUAL(reply.route_count, 2);
	expect_address(&reply.routes[0].destination, "11.0.0.0/8");
	expect_address(&reply.routes[1].gateway, "10.5.0.1/32");
	CHECK(!reply.routes[1].destination.prefix);
	reply = ROUTES(0, 10, 5, 0, 2, 33);
	CHECK_EQUAL(reply.route_count, 1);
	expect_address(&reply.routes[0].gateway, "10.5.0.2/32");
	/* A whole list without a default route does hide it. */
	reply = ROUTES(8, 11, 10, 5, 0, 2);
	CHECK_EQUAL(reply.route_count, 1);
	expect_address(&reply.routes[0].gateway, "10.5.0.2/32");
}

static void test_times(void)
{
	struct ob_dhcp_reply reply;
	struct packet packet;

	begin(&packet, OB_DHCP_ACK);
	PUT(&packet, 51, 0, 0, 0, 1);
	PUT(&packet, 58, 0, 0, 0, 0);
	PUT(&packet, 59, 0xff, 0xff, 0xff, 0xff);
	end(&packet);
	CHECK(read_packet(&packet, &reply));
	CHECK_EQUAL(reply.renew, 500);
	CHECK_EQUAL(reply.rebind, 875);
	begin(&packet, OB_DHCP_ACK);
	PUT(&packet, 51, 0, 0, 0, 100);
	PUT(&packet, 58, 0, 0, 0, 90);
	PUT(&packet, 59, 0, 0, 0, 20);
	end(&packet);
	CHECK(read_packet(&packet, &reply));
	CHECK_EQUAL(reply.renew, 20000);
	CHECK_EQUAL(reply.rebind, 20000);
}

/* The checksum stays right. */
static void set_fragment(uint8_t *ip)
{
	ip[6] = 0x20;
	memset(ip + 10, 0, 2);
	put_sum(ip + 10, add_words(0, ip, 20));
}

#define EXPECT_REFUSED(...)                                     \
	do {                                                    \
		make_whole(&packet);                            \
		__VA_ARGS__;                                    \
		CHECK(!read_packet(&packet, &reply) && #__VA_ARGS__); \
	} while (0)

static void test_refused(void)
{
	struct ob_dhcp_reply reply;
	struct packet packet;
	uint8_t *message = packet.bytes + HEADERS;

	/* Headers. */
	EXPECT_REFUSED(packet.bytes[10] ^= 1);
	EXPECT_REFUSED(packet.bytes[26] ^= 1);
	EXPECT_REFUSED(packet.bytes[HEADERS + 20] ^= 1);
	EXPECT_REFUSED(packet.size--);
	EXPECT_REFUSED(packet.bytes[0] = 0x65);
	EXPECT_REFUSED(packet.bytes[0] = 0x41);
	EXPECT_REFUSED(set_fragment(packet.bytes));
	/* Another client's, another transaction's, a request. */
	EXPECT_REFUSED(message[28] = 4; wrap(&packet));
	EXPECT_REFUSED(message[4] ^= 1; wrap(&packet));
	EXPECT_REFUSED(message[0] = 1; wrap(&packet));
	EXPECT_REFUSED(message[236] = 0; wrap(&packet));
	/* Addresses that an interface cannot have. */
	EXPECT_REFUSED(message[16] = 127; wrap(&packet));
	EXPECT_REFUSED(message[16] = 224; wrap(&packet));
	EXPECT_REFUSED(message[16] = 0; wrap(&packet));
	/* A mask with a hole. */
	EXPECT_REFUSED(message[251] = 0; wrap(&packet));
	/* An option that is longer than the message. */
	EXPECT_REFUSED(packet.size -= 2; wrap(&packet));
	EXPECT_REFUSED(packet.size = HEADERS + 240; wrap(&packet));
	EXPECT_REFUSED(packet.size = HEADERS + 239; wrap(&packet));
	EXPECT_REFUSED(packet.size = HEADERS; wrap(&packet));
}

static void damage(struct packet *packet)
{
	for (int changes = 1 + rand() % 8; changes; changes--) {
		size_t at = HEADERS + (size_t)rand() % (packet->size - HEADERS);

		/* Mostly the options: the rest is soon refused. */
		if (rand() % 4 && packet->size > HEADERS + 240)
			at = HEADERS + 240 + (size_t)rand() % (packet->size - HEADERS - 240);
		packet->bytes[at] = (uint8_t)(rand() % 3 ? rand() : rand() % 8 + 48);
	}
	if (!(rand() % 4))
		packet->size = HEADERS + (size_t)rand() % (packet->size - HEADERS + 1);
}

static void make_seed(struct packet *packet)
{
	if (rand() % 2) {
		make_whole(packet);
		return;
	}
	begin(packet, rand() % 2 ? OB_DHCP_OFFER : OB_DHCP_ACK);
	PUT(packet, 52, (uint8_t)(rand() % 4));
	PUT(packet, 51, 0, 0, (uint8_t)rand(), (uint8_t)rand());
	for (int i = rand() % 60; i; i--)
		PUT(packet, 121, (uint8_t)(rand() % 34), (uint8_t)rand(), 1, 10, 5, 0, 1);
	end(packet);
}

static void test_damaged(long count)
{
	struct ob_dhcp_reply reply;
	struct packet packet;
	long accepted = 0;

	for (long i = 0; i < count; i++) {
		make_seed(&packet);
		damage(&packet);
		/* Mostly with the right checksums, or nothing else would be read. */
		if (rand() % 16)
			wrap(&packet);
		else
			packet.bytes[rand() % HEADERS] = (uint8_t)rand();
		if (!read_packet(&packet, &reply))
			continue;
		check_sane_reply(&reply);
		accepted++;
	}
	/* The test is of use only if enough of them get far. */
	CHECK(accepted > count / 20 && accepted < count);
	printf("%ld of %ld\n", accepted, count);
}

/* The client's own packets have right checksums. */
static void test_requests(void)
{
	struct ob_dhcp_request request = { .type = OB_DHCP_DISCOVER, .transaction = TRANSACTION };
	uint8_t packet[OB_DHCP_REQUEST_BYTES];
	size_t size, unused;

	memcpy(request.mac, mac, 6);
	memcpy(request.wanted, (uint8_t[]){ 10, 5, 0, 77 }, 4);
	memcpy(request.server, (uint8_t[]){ 10, 5, 0, 1 }, 4);
	size = ob_dhcp_write_packet(&request, packet);
	CHECK(size >= 328 && size <= sizeof(packet));
	/* To a server, so it is no message for a client, until the ports are exchanged. */
	CHECK(!ob_dhcp_find_message(packet, size, true, &unused));
	packet[21] = 67;
	packet[23] = 68;
	CHECK(ob_dhcp_find_message(packet, size, true, &unused) == packet + HEADERS);
	CHECK_EQUAL(unused, size - HEADERS);
}

int main(int count, char **arguments)
{
	CHECK(count == 2);
	srand(1);
	test_whole();
	test_overload();
	test_broken_routes();
	test_times();
	test_refused();
	test_requests();
	test_damaged(atol(arguments[1]));
	return 0;
}
