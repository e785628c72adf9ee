/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A virtio entropy device on PCI, for kernels on the mock platform: what Linux's virtio-pci and
 * virtio-rng need of it. It takes buffers from its queue by bus addresses, fills them with bytes
 * from 0xa0 to 0xaf, and sends a message.
 */
#ifndef OUTBOARD_TESTS_VIRTIO_RNG_H
#define OUTBOARD_TESTS_VIRTIO_RNG_H

#include "mock.h"

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
	uint8_t config[256];		/* configuration space */
	uint8_t writable[256];		/* which bits of it can be written */
	struct rng_vector vectors[RNG_VECTORS];
	struct rng_queue queue;
	uint32_t feature_select, driver_feature_select;
	uint64_t driver_features;
	uint16_t config_vector;
	uint8_t status;

	bool hasty;			/* sends each message once it is there, even if masked */

	/* What has happened. */
	uint32_t buffers, messages, withheld;
	uint64_t bytes;
	uint64_t lowest;		/* bus address of what the device has read and written */
	uint32_t unreachable;		/* bus addresses that led nowhere */
};

/* Does the driver let the device access RAM? */
bool rng_is_master(const struct rng *rng);

void rng_init(struct rng *rng, struct ob_host **host);

#endif
