/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A virtio entropy device on PCI, for kernels on the mock platform: what Linux's virtio-pci and
 * virtio-rng need of it. It takes buffers from its queue by bus addresses, fills them, and sends a
 * message.
 */
#ifndef OUTBOARD_TESTS_VIRTIO_RNG_H
#define OUTBOARD_TESTS_VIRTIO_RNG_H

#include "mock.h"
#include "pci_config.h"

#define RNG_VECTORS 2
#define RNG_QUEUE_SIZE 8

struct rng_vector {
	uint32_t address_low, address_high, data, control;
};

struct rng_queue {
	uint16_t size, vector, enabled;
	uint16_t seen;			/* of the driver's ring */
	uint64_t descriptors, driver, device;	/* bus addresses of the three parts */
};

struct rng {
	struct ob_host **host;
	struct mock_device device;	/* for struct mock_options */
	struct pci_config config;
	struct rng_vector vectors[RNG_VECTORS];
	struct rng_queue queue;
	uint32_t feature_select, driver_feature_select;
	uint64_t driver_features;
	uint16_t config_vector;
	uint8_t status;

	bool hasty;			/* sends each message once it is there, even if masked */
	uint8_t high;			/* upper half of each random byte */

	/* Counts of events. */
	uint32_t buffers, messages, withheld;
	uint64_t bytes;
	uint64_t lowest;		/* bus address of what the device has read and written */
	uint32_t unreachable;		/* bus addresses that led nowhere */
	bool reset_as_master;		/* the last reset came when the device could access RAM */
	uint32_t live_at_reset;		/* interrupts that were not masked then */
	uint32_t stops;			/* of the kernel's vCPUs */
	bool master_at_stop;		/* when the vCPUs stopped */
	uint32_t live_at_stop;		/* interrupts that were not masked then */
};

void rng_init(struct rng *rng, struct ob_host **host);

#endif
