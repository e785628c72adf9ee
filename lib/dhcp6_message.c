// SPDX-License-Identifier: GPL-2.0-only
/* Messages of DHCPv6: see dhcp6_message.h. */
#include <string.h>
#include <sys/socket.h>

#include "dhcp6_message.h"

#define HEADER_BYTES 4

enum option_code {
	OPTION_CLIENT = 1, OPTION_SERVER = 2, OPTION_ASSOCIATION = 3, OPTION_ADDRESS = 5,
	OPTION_REQUESTED = 6, OPTION_PREFERENCE = 7, OPTION_ELAPSED = 8, OPTION_STATUS = 13,
	OPTION_SERVERS = 23, OPTION_REFRESH = 32,
};

#define STATUS_SUCCESS 0

/* A DUID of a link-layer address: its type, the hardware type, the address. */
#define DUID_BYTES 10

/* Fixed parts of options: of an association, its number and two times; an address, two times. */
#define ASSOCIATION_BYTES 12
#define ADDRESS_BYTES 24

/* Seconds between two requests for information: RFC 8415, chapter 21.23. */
#define REFRESH_USUAL 86400u
#define REFRESH_LEAST 600u

static void put_u16(uint8_t *bytes, uint32_t value)
{
	bytes[0] = (uint8_t)(value >> 8);
	bytes[1] = (uint8_t)value;
}

static uint32_t get_u16(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 8 | bytes[1];
}

static uint32_t get_u32(const uint8_t *bytes)
{
	return get_u16(bytes) << 16 | get_u16(bytes + 2);
}

static void make_duid(const uint8_t mac[6], uint8_t duid[DUID_BYTES])
{
	memcpy(duid, (uint8_t[]){ 0, 3, 0, 1 }, 4);
	memcpy(duid + 4, mac, 6);
}

/* The number of the client's association: the end of its MAC address. */
static const uint8_t *association_number(const uint8_t mac[6])
{
	return mac + 2;
}

/* ---- requests --------------------------------------------------------------- */

static uint8_t *begin_option(uint8_t *at, enum option_code code, size_t bytes)
{
	put_u16(at, code);
	put_u16(at + 2, (uint32_t)bytes);
	return at + 4;
}

static uint8_t *put_option(uint8_t *at, enum option_code code, const void *value, size_t bytes)
{
	at = begin_option(at, code, bytes);
	memcpy(at, value, bytes);
	return at + bytes;
}

/* All times are zeroes: the server chooses. */
static uint8_t *put_association(uint8_t *at, const struct ob_dhcp6_request *request)
{
	size_t inner = request->address.family ? 4 + ADDRESS_BYTES : 0;

	at = begin_option(at, OPTION_ASSOCIATION, ASSOCIATION_BYTES + inner);
	memset(at, 0, ASSOCIATION_BYTES + inner);
	memcpy(at, association_number(request->mac), 4);
	at += ASSOCIATION_BYTES;
	if (!inner)
		return at;
	at = begin_option(at, OPTION_ADDRESS, ADDRESS_BYTES);
	memcpy(at, request->address.bytes, 16);
	return at + ADDRESS_BYTES;
}

size_t ob_dhcp6_write(const struct ob_dhcp6_request *request,
		      uint8_t bytes[OB_DHCP6_REQUEST_BYTES])
{
	uint8_t requested[] = { 0, OPTION_SERVERS, 0, OPTION_REFRESH };
	uint8_t duid[DUID_BYTES], elapsed[2], *at = bytes + HEADER_BYTES;

	make_duid(request->mac, duid);
	put_u16(elapsed, request->elapsed);
	put_u16(bytes, (uint32_t)request->type << 8 | (request->transaction >> 16 & 0xff));
	put_u16(bytes + 2, request->transaction);
	at = put_option(at, OPTION_CLIENT, duid, sizeof(duid));
	at = put_option(at, OPTION_ELAPSED, elapsed, sizeof(elapsed));
	if (request->server.size)
		at = put_option(at, OPTION_SERVER, request->server.bytes, request->server.size);
	if (request->type != OB_DHCP6_INFORMATION)
		at = put_association(at, request);
	/* Only clients without a lease need a time for the next request. */
	if (request->type != OB_DHCP6_RELEASE)
		at = put_option(at, OPTION_REQUESTED, requested,
				request->type == OB_DHCP6_INFORMATION ? 4 : 2);
	return (size_t)(at - bytes);
}

/* ---- replies ---------------------------------------------------------------- */

struct option {
	uint32_t code;
	size_t size;
	const uint8_t *value;
};

/* The options of a message, or those in an option. */
struct options {
	const uint8_t *at;
	size_t size;
	bool is_wrong;
};

/* False: there are no more, or `is_wrong`: one is longer than what is left. */
static bool take(struct options *options, struct option *option)
{
	if (!options->size)
		return false;
	options->is_wrong = options->size < 4 || get_u16(options->at + 2) > options->size - 4;
	if (options->is_wrong)
		return false;
	*option = (struct option){ get_u16(options->at), get_u16(options->at + 2),
				   options->at + 4 };
	options->at += 4 + option->size;
	options->size -= 4 + option->size;
	return true;
}

/* Addresses that no interface can have, or that are of no use without the name of a link. */
static bool is_usable(const struct ob_net_address *address)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff }, loopback[16] = { [15] = 1 };
	const uint8_t *bytes = address->bytes;

	return ob_net_address_is_of_host(address) && memcmp(bytes, mapped, sizeof(mapped)) &&
	       memcmp(bytes, loopback, sizeof(loopback)) &&
	       !(bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80);
}

static struct ob_net_address make_address(const uint8_t bytes[16])
{
	struct ob_net_address address = { .family = AF_INET6, .prefix = 128 };

	memcpy(address.bytes, bytes, 16);
	return address;
}

static bool read_status(const struct option *option, uint32_t *status)
{
	if (option->size < 2)
		return false;
	*status = get_u16(option->value);
	return true;
}

/* False: the option is malformed. *status: the status in it, if it has one. */
static bool read_status_of_address(const struct option *option, uint32_t *status)
{
	struct options inner = { option->value + ADDRESS_BYTES, option->size - ADDRESS_BYTES,
				 false };
	struct option each;

	while (take(&inner, &each))
		if (each.code == OPTION_STATUS && !read_status(&each, status))
			return false;
	return !inner.is_wrong;
}

/* False: the option is malformed. An address that a client cannot use is skipped. */
static bool read_address(const struct option *option, const struct ob_dhcp6_request *request,
			 struct ob_dhcp6_reply *reply)
{
	uint32_t status = STATUS_SUCCESS, preferred, valid;
	struct ob_net_address address;

	if (option->size < ADDRESS_BYTES || !read_status_of_address(option, &status))
		return false;
	address = make_address(option->value);
	preferred = get_u32(option->value + 16);
	valid = get_u32(option->value + 20);
	if (status != STATUS_SUCCESS || !is_usable(&address) || !valid || preferred > valid)
		return true;
	if (reply->address.family && memcmp(address.bytes, request->address.bytes, 16))
		return true;
	reply->address = address;
	reply->preferred = preferred;
	reply->valid = valid;
	return true;
}

static uint64_t milliseconds(uint32_t seconds)
{
	return seconds == OB_DHCP6_INFINITE ? OB_NEVER : seconds * 1000ull;
}

/* A server's time, or this part of a lifetime, in hundredths. */
static uint64_t choose_time(uint32_t seconds, uint32_t lifetime, unsigned int part)
{
	if (seconds)
		return milliseconds(seconds);
	return lifetime == OB_DHCP6_INFINITE ? OB_NEVER : lifetime * 10ull * part;
}

static void set_times(struct ob_dhcp6_reply *reply, uint32_t renew, uint32_t rebind)
{
	/* No lease is renewed without a pause. */
	uint32_t lifetime = reply->preferred ? reply->preferred : reply->valid;
	uint64_t end = milliseconds(reply->valid);

	reply->renew = choose_time(renew, lifetime, 50);
	reply->rebind = choose_time(rebind, lifetime, 80);
	if (reply->rebind > end)
		reply->rebind = choose_time(0, reply->valid, 80);
	if (reply->renew > reply->rebind)
		reply->renew = reply->rebind;
}

/* False: the option is malformed. */
static bool read_association(const struct option *option, const struct ob_dhcp6_request *request,
			     struct ob_dhcp6_reply *reply)
{
	uint32_t renew, rebind, status = STATUS_SUCCESS;
	struct options inner;
	struct option each;

	if (option->size < ASSOCIATION_BYTES)
		return false;
	inner = (struct options){ option->value + ASSOCIATION_BYTES,
				  option->size - ASSOCIATION_BYTES, false };
	renew = get_u32(option->value + 4);
	rebind = get_u32(option->value + 8);
	/* Another client's, a second one, or one to ignore: RFC 8415, chapter 21.4. */
	if (memcmp(option->value, association_number(request->mac), 4) ||
	    reply->has_association || (rebind && renew > rebind))
		return true;
	reply->has_association = true;
	while (take(&inner, &each)) {
		if (each.code == OPTION_ADDRESS && !read_address(&each, request, reply))
			return false;
		if (each.code == OPTION_STATUS && !read_status(&each, &status))
			return false;
	}
	if (status != STATUS_SUCCESS)
		reply->address.family = 0;
	set_times(reply, renew, rebind);
	return !inner.is_wrong;
}

static void read_servers(const struct option *option, struct ob_net_servers *servers)
{
	for (size_t at = 0; option->size - at >= 16 && servers->count < OB_NET_SERVERS_MOST;
	     at += 16) {
		struct ob_net_address server = make_address(option->value + at);

		if (is_usable(&server))
			servers->list[servers->count++] = server;
	}
}

/* False: malformed, or there twice. */
static bool read_server(const struct option *option, struct ob_dhcp6_duid *server)
{
	if (server->size || option->size < OB_DHCP6_DUID_LEAST || option->size > OB_DHCP6_DUID_MOST)
		return false;
	server->size = (uint8_t)option->size;
	memcpy(server->bytes, option->value, option->size);
	return true;
}

static bool is_client(const struct option *option, const uint8_t mac[6])
{
	uint8_t duid[DUID_BYTES];

	make_duid(mac, duid);
	return option->size == sizeof(duid) && !memcmp(option->value, duid, sizeof(duid));
}

/* False: malformed. *is_ours: the message names this client. */
static bool read_option(const struct option *option, const struct ob_dhcp6_request *request,
			struct ob_dhcp6_reply *reply, bool *is_ours)
{
	uint32_t status;

	switch (option->code) {
	case OPTION_CLIENT:
		*is_ours = is_client(option, request->mac);
		return *is_ours;
	case OPTION_SERVER:
		return read_server(option, &reply->server);
	case OPTION_ASSOCIATION:
		return read_association(option, request, reply);
	case OPTION_PREFERENCE:
		reply->preference = option->size == 1 ? option->value[0] : 0;
		return option->size == 1;
	case OPTION_STATUS:
		/* After a failure the client tries again, as if the message had been lost. */
		return read_status(option, &status) && status == STATUS_SUCCESS;
	case OPTION_SERVERS:
		read_servers(option, &reply->servers);
		return true;
	case OPTION_REFRESH:
		if (option->size != 4)
			return false;
		reply->refresh = milliseconds(get_u32(option->value));
		return true;
	}
	return true;
}

bool ob_dhcp6_read(const uint8_t *message, size_t size, const struct ob_dhcp6_request *request,
		   struct ob_dhcp6_reply *reply)
{
	struct options options;
	struct option option;
	bool is_ours = false;

	memset(reply, 0, sizeof(*reply));
	reply->refresh = milliseconds(REFRESH_USUAL);
	if (size < HEADER_BYTES ||
	    (get_u32(message) & 0xffffff) != (request->transaction & 0xffffff))
		return false;
	reply->type = message[0];
	if (reply->type != OB_DHCP6_ADVERTISE && reply->type != OB_DHCP6_REPLY)
		return false;
	options = (struct options){ message + HEADER_BYTES, size - HEADER_BYTES, false };
	while (take(&options, &option))
		if (!read_option(&option, request, reply, &is_ours))
			return false;
	if (reply->refresh < milliseconds(REFRESH_LEAST))
		reply->refresh = milliseconds(REFRESH_LEAST);
	return is_ours && reply->server.size && !options.is_wrong;
}
