// SPDX-License-Identifier: GPL-2.0-only
/*
 * Port forwards of the rootless NAT:
 *
 *	forwards = forward { "," forward }
 *	forward  = [ "tcp:" | "udp:" ] [ address ":" ] host-port ":" guest-port
 *		 | [ "tcp:" ] "fd=" descriptor ":" guest-port
 *	address  = IPv4 address | "[" IPv6 address "]"
 *
 * A port is a decimal number from 1 to 65535 without leading zeroes. There are no spaces. Without
 * an address, the port is that of all addresses of the host. The descriptor is that of a socket
 * that listens; only a NAT in a process of its own takes it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "raw.h"
#include "user.h"

/* A part of the text that is being read. */
struct cursor {
	const char *at;
	const char *end;
};

static bool take_text(struct cursor *cursor, const char *text)
{
	size_t length = strlen(text);

	if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, text, length))
		return false;
	cursor->at += length;
	return true;
}

static bool take_port(struct cursor *cursor, uint16_t *port)
{
	unsigned long value = 0;
	const char *from = cursor->at;

	if (from == cursor->end || *from == '0')
		return false;
	while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
		value = value * 10 + (unsigned long)(*cursor->at++ - '0');
		if (value > 65535)
			return false;
	}
	*port = (uint16_t)value;
	return cursor->at > from;
}

/* Parses the text up to the character `last`, which it takes too. */
static bool take_address(struct cursor *cursor, char last, int family, void *address)
{
	const char *end = memchr(cursor->at, last, (size_t)(cursor->end - cursor->at));
	char text[INET6_ADDRSTRLEN];
	size_t length;

	if (!end)
		return false;
	length = (size_t)(end - cursor->at);
	if (length >= sizeof(text))
		return false;
	memcpy(text, cursor->at, length);
	text[length] = 0;
	cursor->at = end + 1;
	return inet_pton(family, text, address) == 1;
}

static bool take_host(struct cursor *cursor, struct ob_user_forward *forward)
{
	const char *colon;

	if (take_text(cursor, "[")) {
		forward->family = AF_INET6;
		return take_address(cursor, ']', AF_INET6, &forward->address.v6) &&
		       take_text(cursor, ":");
	}
	colon = memchr(cursor->at, ':', (size_t)(cursor->end - cursor->at));
	if (!colon || !memchr(cursor->at, '.', (size_t)(colon - cursor->at)))
		return true;
	forward->family = AF_INET;
	return take_address(cursor, ':', AF_INET, &forward->address.v4);
}

static bool take_socket(struct cursor *cursor, struct ob_user_forward *forward)
{
	uint16_t number;

	if (forward->udp || !take_port(cursor, &number))
		return false;
	forward->socket = number;
	return true;
}

static bool parse_one(struct cursor *cursor, struct ob_user_forward *forward)
{
	memset(forward, 0, sizeof(*forward));
	forward->family = AF_UNSPEC;
	if (take_text(cursor, "udp:"))
		forward->udp = true;
	else
		take_text(cursor, "tcp:");
	if (take_text(cursor, "fd=")) {
		if (!take_socket(cursor, forward))
			return false;
	} else if (!take_host(cursor, forward) || !take_port(cursor, &forward->host_port)) {
		return false;
	}
	return take_text(cursor, ":") && take_port(cursor, &forward->guest_port) &&
	       cursor->at == cursor->end;
}

static bool is_any(const struct ob_user_forward *forward)
{
	if (forward->family == AF_INET)
		return forward->address.v4.s_addr == INADDR_ANY;
	return IN6_IS_ADDR_UNSPECIFIED(&forward->address.v6);
}

static bool overlap(const struct ob_user_forward *one, const struct ob_user_forward *other)
{
	if (one->socket || other->socket)
		return one->socket == other->socket;
	if (one->udp != other->udp || one->host_port != other->host_port)
		return false;
	if (one->family == AF_UNSPEC || other->family == AF_UNSPEC)
		return true;
	if (one->family != other->family)
		return false;
	return is_any(one) || is_any(other) ||
	       !memcmp(&one->address, &other->address, sizeof(one->address));
}

static bool overlaps_another(const struct ob_user_forwards *forwards)
{
	const struct ob_user_forward *last = &forwards->list[forwards->count - 1];

	for (const struct ob_user_forward *one = forwards->list; one < last; one++)
		if (overlap(one, last))
			return true;
	return false;
}

static int parse_next(struct cursor *cursor, struct ob_user_forwards *forwards, char *error,
		      size_t size)
{
	int length = (int)(cursor->end - cursor->at);
	const char *text = cursor->at;

	if (length > 100)
		length = 100;
	if (forwards->count == OB_USER_FORWARDS_MOST) {
		snprintf(error, size, "net user: more than %d port forwards",
			 OB_USER_FORWARDS_MOST);
		return -EINVAL;
	}
	if (!parse_one(cursor, &forwards->list[forwards->count])) {
		snprintf(error, size, "net user: bad port forward \"%.*s\"; write "
			 "[tcp:|udp:][address:]host-port:guest-port", length, text);
		return -EINVAL;
	}
	forwards->count++;
	if (overlaps_another(forwards)) {
		snprintf(error, size, "net user: the host's port in \"%.*s\" is forwarded twice",
			 length, text);
		return -EINVAL;
	}
	return 0;
}

int ob_user_forwards_parse(const char *text, struct ob_user_forwards *forwards, char *error,
			   size_t error_size)
{
	forwards->count = 0;
	while (text) {
		const char *comma = strchr(text, ',');
		struct cursor cursor = { text, comma ? comma : text + strlen(text) };
		int result = parse_next(&cursor, forwards, error, error_size);

		if (result)
			return result;
		text = comma ? comma + 1 : NULL;
	}
	return 0;
}

socklen_t ob_user_forward_address(const struct ob_user_forward *forward, int family,
				  struct sockaddr_storage *storage)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)storage;
	struct sockaddr_in *v4 = (struct sockaddr_in *)storage;

	memset(storage, 0, sizeof(*storage));
	storage->ss_family = (sa_family_t)family;
	if (family == AF_INET) {
		v4->sin_port = htons(forward->host_port);
		if (forward->family != AF_UNSPEC)
			v4->sin_addr = forward->address.v4;
		return sizeof(*v4);
	}
	v6->sin6_port = htons(forward->host_port);
	if (forward->family != AF_UNSPEC)
		v6->sin6_addr = forward->address.v6;
	return sizeof(*v6);
}

/* 0, or the host's error. */
static int try_to_bind(const struct ob_user_forward *forward, int family)
{
	int type = (forward->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC;
	struct sockaddr_storage address;
	socklen_t length = ob_user_forward_address(forward, family, &address);
	int fd = raw_socket(family, type, 0);
	int one = 1, result;

	if (fd < 0)
		return -errno;
	/* A connection that has ended does not keep a TCP port. UDP would share the port. */
	if (!forward->udp)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	result = bind(fd, (struct sockaddr *)&address, length) ? -errno : 0;
	raw_close(fd);
	return result;
}

/* Whether a descriptor is that of a TCP socket that listens. */
static int check_socket(int fd)
{
	int listens = 0, domain = 0;
	socklen_t size = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) ||
	    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size))
		return -errno;
	return listens && (domain == AF_INET || domain == AF_INET6) ? 0 : -EINVAL;
}

static int try_families(const struct ob_user_forward *forward)
{
	int result;

	if (forward->socket)
		return check_socket(forward->socket);
	if (forward->family != AF_UNSPEC)
		return try_to_bind(forward, forward->family);
	result = try_to_bind(forward, AF_INET);
	if (!result)
		result = try_to_bind(forward, AF_INET6);
	/* A host without IPv6 forwards IPv4 only. */
	return result == -EAFNOSUPPORT || result == -EADDRNOTAVAIL ? 0 : result;
}

static const char *reason(int result)
{
	switch (result) {
	case -EADDRINUSE:
		return "another program uses the port; choose another port";
	case -EACCES:
		return "low ports need privileges; choose a port above 1023";
	case -EADDRNOTAVAIL:
		return "the host has no such address";
	default:
		return strerrordesc_np(-result);
	}
}

int ob_user_forwards_check(const struct ob_user_forwards *forwards, char *error,
			   size_t error_size)
{
	for (int i = 0; i < forwards->count; i++) {
		const struct ob_user_forward *forward = &forwards->list[i];
		int result = try_families(forward);

		if (!result)
			continue;
		snprintf(error, error_size, "net user: cannot forward %s port %u of the host: %s",
			 forward->udp ? "UDP" : "TCP", forward->host_port, reason(result));
		return result;
	}
	return 0;
}
