/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One interface that this library has configured.
 *
 * The list is under the mutex of struct ob_net. A call that changes an interface marks it as busy
 * and gives up the mutex while it waits for the network. Nobody else touches a busy interface,
 * except that its DHCP clients may set `leased`, under the mutex.
 */
#ifndef OUTBOARD_LIB_NET_INTERFACE_H
#define OUTBOARD_LIB_NET_INTERFACE_H

#include <stdbool.h>
#include <stdint.h>

#include "net_options.h"

struct ob_lease_client;
struct ob_instance;

/* The DHCP clients that an interface may have. */
enum ob_lease_kind { OB_LEASE_IPV4, OB_LEASE_IPV6, OB_LEASE_KINDS };

/* In the place of a device's number: the kernel's sockets are the host's. */
#define OB_NET_HOST INT32_MAX

struct ob_net_interface {
	struct ob_net_interface *next;
	bool is_added;			/* by ob_net_add */
	bool is_host;			/* there is no interface: new sockets are the host's */
	int device;			/* its number; -1: the program made the interface */
	uint64_t space;			/* the network namespace, as of ob_netlink_namespace() */
	uint32_t index;			/* in that */
	char name[OB_NET_NAME_BYTES];
	bool busy;
	struct ob_net_servers servers;	/* that the program named */
	/* By enum ob_lease_kind. */
	struct ob_net_servers leased[OB_LEASE_KINDS];	/* that DHCP named */
	struct ob_lease_client *clients[OB_LEASE_KINDS];	/* NULL: no client */
};

/*
 * resolver.c: writes the servers of all interfaces into /etc/resolv.conf of the kernel. If there
 * are none, removes the file that an earlier call has written. Under the mutex.
 */
int ob_resolver_write(struct ob_instance *instance);

/*
 * lease.c: ends a DHCP client of the interface, if it has one, and removes what the lease has
 * configured. Also when the kernel has halted. False: its thread is stuck in a call of the kernel,
 * and uses the interface, which must stay. Blocks, without the mutex of struct ob_net.
 */
bool ob_lease_stop(struct ob_net_interface *interface, enum ob_lease_kind kind);
bool ob_lease_stop_all(struct ob_net_interface *interface);

#endif
