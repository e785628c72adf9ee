/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages of DHCPv6 (RFC 8415; name servers: RFC 3646). Nothing here calls the kernel. Every byte
 * of a reply may be hostile.
 */
#ifndef OUTBOARD_LIB_DHCP6_MESSAGE_H
#define OUTBOARD_LIB_DHCP6_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "netlink.h"

/* Room for every request. */
#define OB_DHCP6_REQUEST_BYTES 256

/* Of a DHCP unique identifier (DUID). */
#define OB_DHCP6_DUID_LEAST 3
#define OB_DHCP6_DUID_MOST 130

enum ob_dhcp6_type {
	OB_DHCP6_SOLICIT = 1,
	OB_DHCP6_ADVERTISE = 2,
	OB_DHCP6_REQUEST = 3,
	OB_DHCP6_RENEW = 5,
	OB_DHCP6_REBIND = 6,
	OB_DHCP6_REPLY = 7,
	OB_DHCP6_RELEASE = 8,
	OB_DHCP6_INFORMATION = 11,	/* INFORMATION-REQUEST */
};

/* A lifetime without an end. */
#define OB_DHCP6_INFINITE 0xffffffffu

struct ob_dhcp6_duid {
	uint8_t size;			/* 0: none */
	uint8_t bytes[OB_DHCP6_DUID_MOST];
};

struct ob_dhcp6_request {
	enum ob_dhcp6_type type;
	uint32_t transaction;		/* 24 bits */
	uint16_t elapsed;		/* hundredths of a second since the client began */
	uint8_t mac[6];			/* makes the client's DUID, and the number of its address */
	struct ob_dhcp6_duid server;	/* that is asked */
	struct ob_net_address address;	/* that the client wants or has; no family: none */
};

/* An offer or a grant of a server. It has only values that a client can use. */
struct ob_dhcp6_reply {
	enum ob_dhcp6_type type;	/* ADVERTISE or REPLY */
	struct ob_dhcp6_duid server;
	uint8_t preference;		/* of several servers, the largest is to be chosen */
	bool has_association;		/* it grants an address, or refuses to */
	struct ob_net_address address;	/* no family: none, it was refused */
	uint32_t preferred, valid;	/* lifetimes in seconds, or OB_DHCP6_INFINITE */
	uint64_t renew, rebind;		/* milliseconds after the request, or OB_NEVER */
	uint64_t refresh;		/* when to ask for information again, as `renew` */
	struct ob_net_servers servers;
};

/* Writes a message. Returns its bytes. */
size_t ob_dhcp6_write(const struct ob_dhcp6_request *request,
		      uint8_t bytes[OB_DHCP6_REQUEST_BYTES]);

/*
 * Reads a reply to the request. False: it is none, or a client cannot use it. If the reply has
 * several addresses, the one of the request comes first, then the first one that is usable.
 */
bool ob_dhcp6_read(const uint8_t *message, size_t size, const struct ob_dhcp6_request *request,
		   struct ob_dhcp6_reply *reply);

#endif
