/* SPDX-License-Identifier: GPL-2.0-only */
/* The words that describe a network interface: docs/net.md has the grammar. */
#ifndef OUTBOARD_LIB_NET_OPTIONS_H
#define OUTBOARD_LIB_NET_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <outboard/platform_host.h>

#define OB_NET_ADDRESSES_MOST 16
#define OB_NET_SERVERS_MOST 8
#define OB_NET_NAME_BYTES 16

/* Longest description, with the NUL. */
#define OB_NET_TEXT_BYTES 4096

/* Room for an address as text, "/" and its prefix. */
#define OB_NET_ADDRESS_TEXT 56

struct ob_net_address {
	uint8_t family;			/* AF_INET, AF_INET6; 0: none */
	uint8_t prefix;
	uint8_t bytes[16];		/* IPv4 uses the first four */
};

/* Addresses of name servers. */
struct ob_net_servers {
	int count;
	struct ob_net_address list[OB_NET_SERVERS_MOST];
};

enum ob_net_wanted { OB_NET_AS_IT_IS, OB_NET_UP, OB_NET_DOWN };

struct ob_net_options {
	struct ob_platform_net device;	/* its strings are in `text` and `forwards` */
	bool is_host;			/* the host's sockets: there is no device */
	char name[OB_NET_NAME_BYTES];	/* "": none given */
	enum ob_net_wanted wanted;
	int address_count;
	struct ob_net_address addresses[OB_NET_ADDRESSES_MOST];
	/* for IPv4, IPv6 */
	struct ob_net_address gateways[2];
	struct ob_net_servers servers;
	unsigned int dhcp;		/* seconds to wait for a lease; 0: no DHCP */
	unsigned int dhcp6;		/* the same for DHCPv6 */
	unsigned int slaac;		/* seconds to wait for an address; 0: does not wait */
	char text[OB_NET_TEXT_BYTES];
	char forwards[OB_NET_TEXT_BYTES];
};

/*
 * Reads the description of a new interface, as "tap:tap0,ip=10.0.0.2/24,gw=10.0.0.1". Returns 0, or
 * -EINVAL: the reason names the word that is wrong.
 */
int ob_net_options_read_spec(const char *spec, struct ob_net_options *options);

/* Reads changes of an existing interface, as "ip=10.0.0.2/24,up". */
int ob_net_options_read_changes(const char *changes, struct ob_net_options *options);

/*
 * Checks that an address of the list is in one network with the gateway. The caller adds addresses
 * that the interface has already.
 */
int ob_net_options_check_gateway(const struct ob_net_address *gateway,
				 const struct ob_net_address *addresses, int count);

/* The address as text; with its prefix if `prefix`. Returns `text`. */
const char *ob_net_address_text(const struct ob_net_address *address, bool prefix,
				char text[OB_NET_ADDRESS_TEXT]);

/* Bytes of an address: 4 or 16. */
static inline unsigned int ob_net_address_bytes(const struct ob_net_address *address)
{
	return address->family == 2 /* AF_INET */ ? 4 : 16;
}

/* False for the addresses that no host can have: unspecified, multicast, broadcast. */
bool ob_net_address_is_of_host(const struct ob_net_address *address);

#endif
