/* SPDX-License-Identifier: GPL-2.0-only */
/* What halting needs of the PCI bus. */
#ifndef OUTBOARD_DRIVERS_PCI_H
#define OUTBOARD_DRIVERS_PCI_H

#include <linux/types.h>

#ifdef CONFIG_PCI
/*
 * Has all drivers shut down their devices, as for a reboot: Linux calls the reboot notifiers first.
 * Then no device may access RAM, and all interrupts of devices are masked. Both stay like that,
 * whatever drivers do. The vCPUs still run, since drivers wait for their devices.
 *
 * `stuck`: a client thread stays in the kernel and may hold the lock of a device. Then drivers do
 * not shut devices down, because they would wait for that lock for ever. The rest takes no lock
 * that sleeps.
 */
void ob_pci_stop(bool stuck);
#else
static inline void ob_pci_stop(bool stuck)
{
}
#endif
#endif
