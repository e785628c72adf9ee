/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages of DHCPv4 (RFC 2131, options of RFC 2132, 3396, 3442), and the IPv4 and UDP headers
 * before them. Nothing here calls the kernel. Every byte of a reply may be hostile.
 */
#ifndef OUTBOARD_LIB_DHCP_MESSAGE_H
#define OUTBOARD_LIB_DHCP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "netlink.h"

/* Room for every request, with its headers. */
#define OB_DHCP_REQUEST_BYTES 576

#define OB_DHCP_ROUTES_MOST 16

enum ob_dhcp_type {
	OB_DHCP_DISCOVER = 1,
	OB_DHCP_OFFER = 2,
	OB_DHCP_REQUEST = 3,
	OB_DHCP_ACK = 5,
	OB_DHCP_NAK = 6,
	OB_DHCP_RELEASE = 7,
};

/* A lease without an end. */
#define OB_DHCP_INFINITE 0xffffffffu

struct ob_dhcp_request {
	enum ob_dhcp_type type;
	uint32_t transaction;
	uint16_t seconds;		/* since the client began */
	uint8_t mac[6];
	uint8_t client[4];		/* the client's address, if it has one; or zeroes */
	uint8_t wanted[4];		/* the address that it asks for; zeroes: no such option */
	uint8_t server[4];		/* the server that it has chosen; zeroes: no such option */
};

/* An offer or a grant of a server. It has only values that a client can use. */
struct ob_dhcp_reply {
	enum ob_dhcp_type type;		/* OFFER, ACK or NAK, which has the server only */
	uint8_t server[4];		/* zeroes: none given */
	struct ob_net_address address;	/* with its prefix */
	uint32_t lease;			/* seconds, or OB_DHCP_INFINITE */
	uint64_t renew, rebind;		/* milliseconds after the request, or OB_NEVER */
	uint32_t mtu;			/* 0: none given */
	int route_count;
	struct ob_route routes[OB_DHCP_ROUTES_MOST];
	struct ob_net_servers servers;
};

/* Writes a message without headers. Returns its bytes, at most OB_DHCP_REQUEST_BYTES - 28. */
size_t ob_dhcp_write(const struct ob_dhcp_request *request, uint8_t *bytes);

/*
 * Writes IPv4 and UDP headers for a message from `source` (zeroes: no address yet) to everybody,
 * and the message behind them. Returns the bytes of all.
 */
size_t ob_dhcp_write_packet(const struct ob_dhcp_request *request,
			    uint8_t packet[OB_DHCP_REQUEST_BYTES]);

/*
 * Finds the message in an IPv4 packet to a DHCP client. `has_checksum`: the sender has computed
 * UDP's checksum; a virtual device may leave it out. NULL: no such packet.
 */
const uint8_t *ob_dhcp_find_message(const uint8_t *packet, size_t size, bool has_checksum,
				    size_t *message_size);

/*
 * Reads a reply to the transaction of the client with this MAC address. False: it is none, or a
 * client cannot use it.
 */
bool ob_dhcp_read(const uint8_t *message, size_t size, uint32_t transaction, const uint8_t mac[6],
		  struct ob_dhcp_reply *reply);

#endif
