/* SPDX-License-Identifier: GPL-2.0-only */
/* What halting needs of the PCI bus. */
#ifndef OUTBOARD_DRIVERS_PCI_H
#define OUTBOARD_DRIVERS_PCI_H

#ifdef CONFIG_PCI
/* No device writes to RAM from now on. */
void ob_pci_stop(void);
#else
static inline void ob_pci_stop(void)
{
}
#endif
#endif
