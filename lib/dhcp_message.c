// SPDX-License-Identifier: GPL-2.0-only
/* Messages of DHCPv4: see dhcp_message.h. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "dhcp_message.h"

#define PORT_SERVER 67
#define PORT_CLIENT 68

/* Fields of a message, by their offsets. */
enum {
	AT_OPERATION = 0, AT_HARDWARE = 1, AT_HARDWARE_BYTES = 2, AT_TRANSACTION = 4,
	AT_SECONDS = 8, AT_FLAGS = 10, AT_CLIENT = 12, AT_YOURS = 16, AT_MAC = 28,
	AT_SERVER_NAME = 44, AT_FILE = 108, AT_MAGIC = 236, AT_OPTIONS = 240,
};

#define OPERATION_REQUEST 1
#define OPERATION_REPLY 2
#define HARDWARE_ETHERNET 1
#define FLAG_BROADCAST 0x80

static const uint8_t magic[4] = { 99, 130, 83, 99 };

enum option {
	OPTION_PAD = 0, OPTION_MASK = 1, OPTION_ROUTERS = 3, OPTION_SERVERS = 6, OPTION_MTU = 26,
	OPTION_WANTED = 50, OPTION_LEASE = 51, OPTION_OVERLOAD = 52, OPTION_TYPE = 53,
	OPTION_SERVER = 54, OPTION_PARAMETERS = 55, OPTION_SIZE = 57, OPTION_RENEW = 58,
	OPTION_REBIND = 59, OPTION_CLIENT = 61, OPTION_ROUTES = 121, OPTION_END = 255,
};

#define IP_BYTES 20
#define UDP_BYTES 8
#define PROTOCOL_UDP 17

/* Linux takes IPv6 from an interface with a smaller MTU: a hostile server could do that. */
#define MTU_LEAST 1280
#define MTU_MOST 65535

static const uint8_t no_address[4];

static void put_u16(uint8_t *bytes, uint32_t value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

static void put_u32(uint8_t *bytes, uint32_t value)
{
	put_u16(bytes, value >> 16);
	put_u16(bytes + 2, value);
}

static uint32_t get_u16(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t get_u32(const uint8_t *bytes)
{
	return get_u16(bytes) << 16 | get_u16(bytes + 2);
}

/* ---- requests --------------------------------------------------------------- */

static uint8_t *put_option(uint8_t *at, enum option option, const void *value, uint8_t bytes)
{
	*at++ = (uint8_t)option;
	*at++ = bytes;
	memcpy(at, value, bytes);
	return at + bytes;
}

static uint8_t *put_address(uint8_t *at, enum option option, const uint8_t address[4])
{
	return memcmp(address, no_address, 4) ? put_option(at, option, address, 4) : at;
}

size_t ob_dhcp_write(const struct ob_dhcp_request *request, uint8_t *bytes)
{
	static const uint8_t parameters[] = {
		OPTION_MASK, OPTION_ROUTES, OPTION_ROUTERS, OPTION_SERVERS, OPTION_MTU,
		OPTION_LEASE, OPTION_RENEW, OPTION_REBIND,
	};
	uint8_t type = (uint8_t)request->type, size[2], client[7] = { HARDWARE_ETHERNET };
	uint8_t *at = bytes + AT_OPTIONS;

	memset(bytes, 0, AT_OPTIONS);
	bytes[AT_OPERATION] = OPERATION_REQUEST;
	bytes[AT_HARDWARE] = HARDWARE_ETHERNET;
	bytes[AT_HARDWARE_BYTES] = 6;
	put_u32(bytes + AT_TRANSACTION, request->transaction);
	put_u16(bytes + AT_SECONDS, request->seconds);
	memcpy(bytes + AT_CLIENT, request->client, 4);
	memcpy(bytes + AT_MAC, request->mac, 6);
	memcpy(bytes + AT_MAGIC, magic, sizeof(magic));
	memcpy(client + 1, request->mac, 6);
	put_u16(size, 1500);
	at = put_option(at, OPTION_TYPE, &type, 1);
	at = put_option(at, OPTION_CLIENT, client, sizeof(client));
	at = put_address(at, OPTION_WANTED, request->wanted);
	at = put_address(at, OPTION_SERVER, request->server);
	if (request->type != OB_DHCP_RELEASE) {
		at = put_option(at, OPTION_SIZE, size, sizeof(size));
		at = put_option(at, OPTION_PARAMETERS, parameters, sizeof(parameters));
	}
	*at++ = OPTION_END;
	/* Some relays drop messages that are shorter than BOOTP's. */
	while (at < bytes + 300)
		*at++ = OPTION_PAD;
	return (size_t)(at - bytes);
}

/* The sum of 16-bit words, of an odd number of bytes, too. */
static uint32_t add_words(uint32_t sum, const uint8_t *bytes, size_t size)
{
	for (; size > 1; size -= 2, bytes += 2)
		sum += get_u16(bytes);
	return size ? sum + ((uint32_t)bytes[0] << 8) : sum;
}

static uint16_t fold(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* Of a UDP packet with the addresses of its IPv4 header. 0xffff if the packet's checksum fits. */
static uint16_t sum_of_udp(const uint8_t *ip, const uint8_t *udp, size_t size)
{
	uint32_t sum = add_words(0, ip + 12, 8) + PROTOCOL_UDP + (uint32_t)size;

	return fold(add_words(sum, udp, size));
}

size_t ob_dhcp_write_packet(const struct ob_dhcp_request *request,
			    uint8_t packet[OB_DHCP_REQUEST_BYTES])
{
	uint8_t *ip = packet, *udp = packet + IP_BYTES, *message = udp + UDP_BYTES;
	size_t size = ob_dhcp_write(request, message);
	uint16_t sum;

	/* An answer to an address that the client does not have yet would not arrive everywhere. */
	message[AT_FLAGS] = FLAG_BROADCAST;
	memset(packet, 0, IP_BYTES + UDP_BYTES);
	ip[0] = 0x45;
	put_u16(ip + 2, (uint32_t)(IP_BYTES + UDP_BYTES + size));
	ip[8] = 64;
	ip[9] = PROTOCOL_UDP;
	memset(ip + 16, 0xff, 4);
	put_u16(ip + 10, (uint16_t)~fold(add_words(0, ip, IP_BYTES)));
	put_u16(udp, PORT_CLIENT);
	put_u16(udp + 2, PORT_SERVER);
	put_u16(udp + 4, (uint32_t)(UDP_BYTES + size));
	sum = (uint16_t)~sum_of_udp(ip, udp, UDP_BYTES + size);
	put_u16(udp + 6, sum ? sum : 0xffff);
	return IP_BYTES + UDP_BYTES + size;
}

/* ---- replies ---------------------------------------------------------------- */

const uint8_t *ob_dhcp_find_message(const uint8_t *packet, size_t size, bool has_checksum,
				    size_t *message_size)
{
	size_t header, total, length;
	const uint8_t *udp;

	if (size < IP_BYTES || packet[0] >> 4 != 4)
		return NULL;
	header = (packet[0] & 15u) * 4;
	total = get_u16(packet + 2);
	if (header < IP_BYTES || total > size || total < header + UDP_BYTES)
		return NULL;
	/* More fragments, or not the first one. */
	if (packet[9] != PROTOCOL_UDP || get_u16(packet + 6) & 0x3fff)
		return NULL;
	if (fold(add_words(0, packet, header)) != 0xffff)
		return NULL;
	udp = packet + header;
	length = get_u16(udp + 4);
	if (length < UDP_BYTES || length > total - header || get_u16(udp) != PORT_SERVER ||
	    get_u16(udp + 2) != PORT_CLIENT)
		return NULL;
	if (has_checksum && get_u16(udp + 6) && sum_of_udp(packet, udp, length) != 0xffff)
		return NULL;
	*message_size = length - UDP_BYTES;
	return udp + UDP_BYTES;
}

/* A value of an option: its parts, one after the other (RFC 3396). Longer ones are cut. */
struct value {
	size_t size;
	uint8_t bytes[512];
};

static void add_part(struct value *value, const uint8_t *bytes, size_t size)
{
	size_t room = sizeof(value->bytes) - value->size;

	if (size > room)
		size = room;
	memcpy(value->bytes + value->size, bytes, size);
	value->size += size;
}

/* Adds the option's parts in one field. False: the field is malformed. */
static bool find_in_field(const uint8_t *field, size_t size, enum option option,
			  struct value *value)
{
	size_t at = 0;

	while (at < size && field[at] != OPTION_END) {
		size_t length;

		if (field[at] == OPTION_PAD) {
			at++;
			continue;
		}
		if (size - at < 2)
			return false;
		length = field[at + 1];
		if (length > size - at - 2)
			return false;
		if (field[at] == option)
			add_part(value, field + at + 2, length);
		at += 2 + length;
	}
	return true;
}

struct message {
	const uint8_t *bytes;
	size_t size;
	bool file_has_options, name_has_options;
};

static bool find(const struct message *message, enum option option, struct value *value)
{
	const uint8_t *bytes = message->bytes;

	value->size = 0;
	return find_in_field(bytes + AT_OPTIONS, message->size - AT_OPTIONS, option, value) &&
	       (!message->file_has_options ||
		find_in_field(bytes + AT_FILE, AT_MAGIC - AT_FILE, option, value)) &&
	       (!message->name_has_options ||
		find_in_field(bytes + AT_SERVER_NAME, AT_FILE - AT_SERVER_NAME, option, value));
}

static uint32_t find_u32(const struct message *message, enum option option, uint32_t without)
{
	struct value value;

	return find(message, option, &value) && value.size == 4 ? get_u32(value.bytes) : without;
}

/* Addresses that no interface and no gateway on it can have. */
static bool is_usable(const uint8_t bytes[4])
{
	struct ob_net_address address = { .family = AF_INET };

	memcpy(address.bytes, bytes, 4);
	return ob_net_address_is_of_host(&address) && bytes[0] != 127;
}

static void set_address(struct ob_net_address *address, const uint8_t bytes[4], unsigned int prefix)
{
	*address = (struct ob_net_address){ .family = AF_INET, .prefix = (uint8_t)prefix };
	memcpy(address->bytes, bytes, 4);
}

/* The classes of addresses are what is left if a server sends no mask. */
static uint32_t mask_of_class(uint8_t first)
{
	if (first < 128)
		return 0xff000000;
	return first < 192 ? 0xffff0000 : 0xffffff00;
}

static bool read_address(const struct message *message, struct ob_dhcp_reply *reply)
{
	const uint8_t *yours = message->bytes + AT_YOURS;
	uint32_t mask = find_u32(message, OPTION_MASK, mask_of_class(yours[0]));
	unsigned int prefix = (unsigned int)__builtin_popcount(mask);

	if (!is_usable(yours) || !prefix || mask != ~0u << (32 - prefix))
		return false;
	set_address(&reply->address, yours, prefix);
	return true;
}

/*
 * A server's time, or the usual one if the server sends none, or one after `most`. 0 is none: no
 * lease is renewed without a pause.
 */
static uint64_t find_time(const struct message *message, enum option option, uint64_t usual,
			  uint64_t most)
{
	uint64_t time = find_u32(message, option, 0) * 1000ull;

	return time && time <= most ? time : usual;
}

static bool read_times(const struct message *message, struct ob_dhcp_reply *reply)
{
	uint64_t lease = find_u32(message, OPTION_LEASE, 0);

	reply->lease = (uint32_t)lease;
	if (lease == OB_DHCP_INFINITE) {
		reply->renew = reply->rebind = OB_NEVER;
		return true;
	}
	reply->rebind = find_time(message, OPTION_REBIND, lease * 875, lease * 1000);
	reply->renew = find_time(message, OPTION_RENEW, lease * 500, reply->rebind);
	if (reply->renew > reply->rebind)
		reply->renew = reply->rebind;
	return lease;
}

static bool is_on_link(const struct ob_net_address *address, const uint8_t gateway[4])
{
	uint32_t mask = ~0u << (32 - address->prefix);

	return !((get_u32(address->bytes) ^ get_u32(gateway)) & mask);
}

static void add_route(struct ob_dhcp_reply *reply, const uint8_t destination[4],
		      unsigned int prefix, const uint8_t gateway[4])
{
	struct ob_route *route;

	if (reply->route_count == OB_DHCP_ROUTES_MOST)
		return;
	if (!is_usable(gateway) && memcmp(gateway, no_address, 4))
		return;
	route = &reply->routes[reply->route_count++];
	*route = (struct ob_route){ .source = reply->address };
	set_address(&route->destination, destination, prefix);
	if (memcmp(gateway, no_address, 4)) {
		set_address(&route->gateway, gateway, 32);
		route->on_link = !is_on_link(&reply->address, gateway);
	}
}

/*
 * RFC 3442: the length of a prefix, its significant bytes, a gateway. True: routers of the older
 * option do not count. They do if this option is broken and names no default route.
 */
static bool read_classless_routes(const struct message *message, struct ob_dhcp_reply *reply)
{
	bool has_default = false;
	struct value value;
	size_t at = 0;

	if (!find(message, OPTION_ROUTES, &value) || !value.size)
		return false;
	while (at < value.size) {
		unsigned int prefix = value.bytes[at], bytes = (prefix + 7) / 8;
		uint8_t destination[4] = { 0 };

		if (prefix > 32 || value.size - at - 1 < bytes + 4)
			break;
		memcpy(destination, value.bytes + at + 1, bytes);
		/* Linux refuses a destination with bits behind its prefix. */
		if (prefix % 8)
			destination[bytes - 1] &= (uint8_t)(0xff << (8 - prefix % 8));
		add_route(reply, destination, prefix, value.bytes + at + 1 + bytes);
		has_default |= !prefix;
		at += 1 + bytes + 4;
	}
	return at == value.size || has_default;
}

static void read_routes(const struct message *message, struct ob_dhcp_reply *reply)
{
	struct value value;

	if (read_classless_routes(message, reply))
		return;
	if (find(message, OPTION_ROUTERS, &value) && value.size >= 4 && is_usable(value.bytes))
		add_route(reply, no_address, 0, value.bytes);
}

static void read_servers(const struct message *message, struct ob_dhcp_reply *reply)
{
	struct ob_net_servers *servers = &reply->servers;
	struct value value;

	if (!find(message, OPTION_SERVERS, &value))
		return;
	for (size_t at = 0; value.size - at >= 4 && servers->count < OB_NET_SERVERS_MOST; at += 4)
		if (is_usable(value.bytes + at))
			set_address(&servers->list[servers->count++], value.bytes + at, 32);
}

static void read_mtu(const struct message *message, struct ob_dhcp_reply *reply)
{
	struct value value;
	uint32_t mtu;

	if (!find(message, OPTION_MTU, &value) || value.size != 2)
		return;
	mtu = get_u16(value.bytes);
	if (mtu >= MTU_LEAST && mtu <= MTU_MOST)
		reply->mtu = mtu;
}

static bool is_reply_to(const uint8_t *bytes, size_t size, uint32_t transaction,
			const uint8_t mac[6])
{
	return size >= AT_OPTIONS && bytes[AT_OPERATION] == OPERATION_REPLY &&
	       bytes[AT_HARDWARE] == HARDWARE_ETHERNET && bytes[AT_HARDWARE_BYTES] == 6 &&
	       get_u32(bytes + AT_TRANSACTION) == transaction &&
	       !memcmp(bytes + AT_MAC, mac, 6) && !memcmp(bytes + AT_MAGIC, magic, sizeof(magic));
}

static bool read_type(const struct message *message, struct ob_dhcp_reply *reply)
{
	struct value value;

	if (!find(message, OPTION_TYPE, &value) || value.size != 1)
		return false;
	reply->type = value.bytes[0];
	return reply->type == OB_DHCP_OFFER || reply->type == OB_DHCP_ACK ||
	       reply->type == OB_DHCP_NAK;
}

bool ob_dhcp_read(const uint8_t *bytes, size_t size, uint32_t transaction, const uint8_t mac[6],
		  struct ob_dhcp_reply *reply)
{
	struct message message = { .bytes = bytes, .size = size };
	struct value value;

	memset(reply, 0, sizeof(*reply));
	if (!is_reply_to(bytes, size, transaction, mac))
		return false;
	if (find(&message, OPTION_OVERLOAD, &value) && value.size == 1) {
		message.file_has_options = value.bytes[0] & 1;
		message.name_has_options = value.bytes[0] & 2;
	}
	if (!read_type(&message, reply))
		return false;
	if (find(&message, OPTION_SERVER, &value) && value.size == 4 && is_usable(value.bytes))
		memcpy(reply->server, value.bytes, 4);
	if (reply->type == OB_DHCP_NAK)
		return true;
	if (reply->type == OB_DHCP_OFFER && !memcmp(reply->server, no_address, 4))
		return false;
	if (!read_address(&message, reply) || !read_times(&message, reply))
		return false;
	read_routes(&message, reply);
	read_servers(&message, reply);
	read_mtu(&message, reply);
	return true;
}
