/* SPDX-License-Identifier: GPL-2.0-only */
/* The DHCPv6 client of one interface. */
#ifndef OUTBOARD_LIB_DHCP6_H
#define OUTBOARD_LIB_DHCP6_H

#include "lease.h"

enum ob_dhcp6_mode {
	OB_DHCP6_ADDRESS,		/* an address and name servers */
	OB_DHCP6_SERVERS,		/* name servers only, and no failure if there are none */
};

/*
 * Asks for a lease, and starts the thread that renews it: as ob_lease_start(). `link`: the
 * interface, which is up.
 */
int ob_dhcp6_start(struct ob_instance *instance, struct ob_net_interface *interface,
		   const struct ob_link *link, unsigned int seconds, enum ob_dhcp6_mode mode);

#endif
