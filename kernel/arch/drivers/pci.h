/* SPDX-License-Identifier: GPL-2.0-only */
/* What halting needs of the PCI bus. */
#ifndef OUTBOARD_DRIVERS_PCI_H
#define OUTBOARD_DRIVERS_PCI_H

#ifdef CONFIG_PCI
/*
 * Takes the right to write to RAM from all devices. Writes that have left a device may still
 * arrive, and a driver at work on another vCPU may give its device the right again.
 */
void ob_pci_stop(void);
#else
static inline void ob_pci_stop(void)
{
}
#endif
#endif
