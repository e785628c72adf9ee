/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A PCI device for kernels on the mock platform. Its only BAR is ports, and it reaches the lower
 * 4 GB of the bus only. It copies between RAM and bytes of its own. Beside it is a device on no
 * bus. Their driver is the module port_driver, which the tests load.
 */
#ifndef OUTBOARD_TESTS_PORT_DEVICE_H
#define OUTBOARD_TESTS_PORT_DEVICE_H

#include "memory_driver/port_registers.h"
#include "mock.h"
#include "pci_config.h"

struct port_device {
	struct mock_device device;	/* for struct mock_options */
	struct pci_config config;
	struct ob_host **host;
	uint8_t ports[PORT_COUNT];
	uint8_t queue[64];
	uint32_t written, read;		/* bytes of the queue */
	uint8_t legacy;
	uint8_t bytes[DEVICE_BYTES];
	uint32_t accesses;
	uint32_t wrong;			/* of them with a wrong size, or beyond the last port */
	uint32_t unanswered;		/* of them where no device is */
};

void port_device_init(struct port_device *ports, struct ob_host **host);

#endif
