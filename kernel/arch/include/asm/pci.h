/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What Linux's PCI core requires of an architecture. ARCH_GENERIC_PCI_MMAP_RESOURCE is not defined:
 * clients cannot map device memory, because only RAM can be mapped in the client window.
 */
#ifndef _ASM_OUTBOARD_PCI_H
#define _ASM_OUTBOARD_PCI_H

/* In a window that begins at port 0, the ports below belong to legacy devices. */
#define PCIBIOS_MIN_IO 0x1000
#define PCIBIOS_MIN_MEM 0

/* Linux assigns new bus numbers to all bridges. */
#define pcibios_assign_all_busses() 1

#endif
