/* SPDX-License-Identifier: GPL-2.0-only */
/* The virtio network device, as open.c makes it: device.c. */
#ifndef OUTBOARD_DEVICES_NET_DEVICE_H
#define OUTBOARD_DEVICES_NET_DEVICE_H

#include "virtio.h"
#include "../virtqueue.h"
#include "backend.h"

/*
 * `mac`: 6 bytes; NULL: random ones. `pairs_most`: queue pairs that a back-end may have. Returns
 * NULL if there is no memory or no randomness.
 */
struct ob_net_port *ob_net_port_new(struct ob_host *host, const uint8_t *mac,
				    unsigned int pairs_most);

/* A locally administered address at random. 0 or -errno. */
int ob_net_choose_mac(struct ob_host *host, uint8_t mac[6]);

/* Before any other use. The device then owns both, and closes them. `capture` may be NULL. */
struct ob_virtio_device *ob_net_port_complete(struct ob_net_port *port,
					      struct ob_net_backend *backend,
					      struct ob_net_capture *capture);

/* A driver that is not the kernel of this process. */
struct ob_net_driver {
	const struct ob_virtqueue_memory *memory;	/* that has the queues */
	/* Raises the interrupt of a queue, as struct ob_virtio_queue has it. Any thread. */
	void (*interrupt)(void *context, uint32_t number);
	void *context;
	const bool *ending;		/* true: sending stops soon; atomic */
};

/* Before ob_net_port_complete(). */
void ob_net_port_set_driver(struct ob_net_port *port, const struct ob_net_driver *driver);

/*
 * Between the set-up of a queue and the start: the queue goes on with this buffer of the driver's.
 * Queues begin at 0 otherwise.
 */
void ob_net_port_set_base(struct ob_net_port *port, unsigned int index, uint16_t taken);

/* Frames that the driver could not get: too large for it, or not what their headers say. */
uint64_t ob_net_port_dropped(const struct ob_net_port *port);

/* Frees a port that never became a device. */
void ob_net_port_free(struct ob_net_port *port);

#endif
