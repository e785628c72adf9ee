/* SPDX-License-Identifier: GPL-2.0-only */
/* What halting needs of the PCI bus. */
#ifndef OUTBOARD_DRIVERS_PCI_H
#define OUTBOARD_DRIVERS_PCI_H

#ifdef CONFIG_PCI
/*
 * Has all drivers shut down their devices, as for a reboot: Linux calls the reboot notifiers first.
 * Then no device may access RAM, and all interrupts of devices are masked. The vCPUs still run,
 * since drivers wait for their devices.
 */
void ob_pci_stop(void);
#else
static inline void ob_pci_stop(void)
{
}
#endif
#endif
