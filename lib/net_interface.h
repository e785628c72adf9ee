/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One interface that this library has configured.
 *
 * The list is under the mutex of struct ob_net. A call that changes an interface marks it as busy
 * and gives up the mutex while it waits for the network. Nobody else touches a busy interface,
 * except that its DHCP client may set `leased`, under the mutex.
 */
#ifndef OUTBOARD_LIB_NET_INTERFACE_H
#define OUTBOARD_LIB_NET_INTERFACE_H

#include "net_options.h"

struct ob_dhcp;
struct ob_instance;

struct ob_net_interface {
	struct ob_net_interface *next;
	int device;			/* its number; -1: the program made the interface */
	uint64_t space;			/* the network namespace, as of ob_netlink_namespace() */
	uint32_t index;			/* in that */
	char name[OB_NET_NAME_BYTES];
	bool busy;
	struct ob_net_servers servers;	/* that the program named */
	struct ob_net_servers leased;	/* that DHCP named */
	struct ob_dhcp *dhcp;		/* NULL: no client */
};

/*
 * resolver.c: writes the servers of all interfaces into /etc/resolv.conf of the kernel. If there
 * are none, removes the file that an earlier call has written. Under the mutex.
 */
int ob_resolver_write(struct ob_instance *instance);

#endif
