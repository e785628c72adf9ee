/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A PCI device that consists of memory, for kernels on the mock platform: BAR 0 has several
 * pages. The device can send a message when the kernel takes its access to RAM away. Its driver is
 * the module memory_driver, which the tests load.
 */
#ifndef OUTBOARD_TESTS_MEMORY_DEVICE_H
#define OUTBOARD_TESTS_MEMORY_DEVICE_H

#include "mock.h"
#include "pci_config.h"

#define MEMORY_SIZE 0x10000u

struct memory_device {
	struct mock_device device;	/* for struct mock_options */
	struct pci_config config;
	struct ob_host **host;		/* to which it sends messages; NULL: it sends none */
	uint8_t *memory;		/* whole pages */
	uint32_t accesses;		/* by hypercalls */
	uint32_t misplaced;		/* of them not in BAR 0, or not aligned */
};

/*
 * `mapped`: the kernel can map the memory. Byte i of it is `seed` plus i times 7 plus i / 256, as
 * the driver knows.
 */
void memory_device_init(struct memory_device *memory, bool mapped, uint8_t seed);

#endif
