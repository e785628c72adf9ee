/* SPDX-License-Identifier: GPL-2.0-only */
/* Which of the groups that a host may lack this one has: host.c. */
#ifndef OUTBOARD_CORE_HOST_H
#define OUTBOARD_CORE_HOST_H

#include <linux/types.h>

struct ob_host_groups {
	bool mapping;
	bool timer;
	bool dma;
	bool pci;			/* perhaps without some of its members */
	bool pci_is_whole;		/* with all members of the groups that PCI needs */
};
extern struct ob_host_groups ob_host_groups;

#endif
