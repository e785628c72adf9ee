/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OUTBOARD_DRIVERS_PCI_H
#define OUTBOARD_DRIVERS_PCI_H

#include <linux/pci.h>

/*
 * Linux's interrupt of a device's pin. `pin`: where it arrives on the root bus, 1 to 4. 0: there
 * is none, and the log says why. With 0, drivers do not use the firmware's line. pci_pin.c
 */
int ob_pci_map_irq(const struct pci_dev *device, u8 slot, u8 pin);

#endif
