/* SPDX-License-Identifier: GPL-2.0-only */
/* The host, and which of the optional groups it has: host.c. */
#ifndef OUTBOARD_CORE_HOST_H
#define OUTBOARD_CORE_HOST_H

#include <linux/types.h>

struct ob_host_groups {
	bool mapping;
	bool timer;
	bool ports;
	bool dma;
	bool spaces;
	bool pci;			/* possibly without some of its members */
	bool pci_is_whole;		/* the host has all members of the groups that PCI needs */
};
extern struct ob_host_groups ob_host_groups;

struct ob_host;
struct ob_hypercalls;

/*
 * Takes over the host's functions, before anything else runs. Returns NULL, or why they do not fit.
 */
const char *ob_host_connect(const struct ob_hypercalls *table, struct ob_host *host);

#endif
