/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Links, addresses and routes of a kernel, by rtnetlink on a socket of that kernel. All functions
 * work in the calling thread's network namespace, and block only in the kernel.
 *
 * Each returns 0 or -errno. ob_netlink_reason() then has what Linux said, if it said more.
 */
#ifndef OUTBOARD_LIB_NETLINK_H
#define OUTBOARD_LIB_NETLINK_H

#include "net_options.h"

struct ob_instance;

struct ob_netlink {
	struct ob_instance *instance;
	int fd;
	uint32_t sequence;
	char reason[160];
	char buffer[8192];
};

/* A router's flags: hosts ask a DHCPv6 server for addresses, for other information. */
#define OB_ROUTER_MANAGED 0x40u
#define OB_ROUTER_OTHER 0x80u

struct ob_link {
	uint32_t index;
	uint32_t flags;			/* IFF_* */
	uint32_t mtu;
	uint32_t router_flags;		/* OB_ROUTER_* of the last announcement of a router */
	uint8_t mac[6];
	bool has_mac;
	char name[OB_NET_NAME_BYTES];
};

struct ob_route {
	struct ob_net_address destination;	/* prefix 0: the default route */
	struct ob_net_address gateway;		/* no family: the destination is on the link */
	struct ob_net_address source;		/* no family: the kernel chooses */
	uint32_t metric;
	bool on_link;			/* the gateway, though no address is in its network */
};

/* For an address without an end. */
#define OB_NETLINK_FOR_EVER 0xffffffffu

/* `groups`: RTMGRP_* of changes that the socket reports; 0 for a socket of commands. */
int ob_netlink_open(struct ob_netlink *netlink, struct ob_instance *instance, uint32_t groups);
void ob_netlink_close(struct ob_netlink *netlink);
/* A number of the network namespace that the socket belongs to. */
int ob_netlink_namespace(struct ob_netlink *netlink, uint64_t *number);
/*
 * Waits until a socket with groups has reports, and drops them. -ETIMEDOUT; -EINTR: by
 * ob_interrupt().
 */
int ob_netlink_wait(struct ob_netlink *netlink, unsigned int milliseconds);
/* Why the last call failed with `error`. */
const char *ob_netlink_reason(const struct ob_netlink *netlink, int error);

/* -ENODEV: there is no such link. */
int ob_netlink_link_get(struct ob_netlink *netlink, const char *name, struct ob_link *link);
int ob_netlink_link_set_up(struct ob_netlink *netlink, uint32_t index, bool up);
int ob_netlink_link_set_mtu(struct ob_netlink *netlink, uint32_t index, uint32_t mtu);
int ob_netlink_link_set_name(struct ob_netlink *netlink, uint32_t index, const char *name);
int ob_netlink_link_set_mac(struct ob_netlink *netlink, uint32_t index, const uint8_t mac[6]);

/*
 * An IPv6 address is usable at once: the kernel does not look for duplicates. After `preferred`
 * seconds new connections prefer other addresses, after `valid` seconds the kernel removes the
 * address. With `replace` the times of an address are set that the link may have already; else
 * that is -EEXIST.
 */
int ob_netlink_address_add(struct ob_netlink *netlink, uint32_t index,
			   const struct ob_net_address *address, uint32_t preferred,
			   uint32_t valid, bool replace);
int ob_netlink_address_remove(struct ob_netlink *netlink, uint32_t index,
			      const struct ob_net_address *address);
/*
 * The usable addresses of a link, at most `most`. With `autoconfigured`, only those that the kernel
 * made from announcements of routers. Returns their number or -errno.
 */
int ob_netlink_addresses(struct ob_netlink *netlink, uint32_t index, bool autoconfigured,
			 struct ob_net_address *addresses, int most);

int ob_netlink_route_add(struct ob_netlink *netlink, uint32_t index, const struct ob_route *route);
int ob_netlink_route_remove(struct ob_netlink *netlink, uint32_t index,
			    const struct ob_route *route);

#endif
