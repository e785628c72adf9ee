/* SPDX-License-Identifier: GPL-2.0-only */
/* The DHCPv4 client of one interface. */
#ifndef OUTBOARD_LIB_DHCP_H
#define OUTBOARD_LIB_DHCP_H

#include "net_interface.h"
#include "netlink.h"

/*
 * Asks for a lease, at most `seconds` long, configures the interface with it, and starts the thread
 * that renews it. `link`: the interface, which is up. `fixed_mtu`: the server's MTU is ignored. On
 * failure the interface is as before, and the reason is set. Blocks, without the mutex of struct
 * ob_net.
 */
int ob_dhcp_start(struct ob_instance *instance, struct ob_net_interface *interface,
		  const struct ob_link *link, unsigned int seconds, bool fixed_mtu);

#endif
