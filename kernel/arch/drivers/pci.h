/* SPDX-License-Identifier: GPL-2.0-only */
/* What halting needs of the PCI bus. */
#ifndef OUTBOARD_DRIVERS_PCI_H
#define OUTBOARD_DRIVERS_PCI_H

#include <linux/types.h>

#ifdef CONFIG_PCI
/* Whether the host has a PCI bus that the kernel uses. */
bool ob_pci_is_used(void);

/*
 * No device may access RAM any more, and all interrupts of devices are masked. Both stay like that,
 * whatever drivers do. Takes no lock that sleeps. The vCPUs still run.
 */
void ob_pci_stop(void);
#else
static inline bool ob_pci_is_used(void)
{
	return false;
}

static inline void ob_pci_stop(void)
{
}
#endif

#endif
