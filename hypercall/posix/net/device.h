/* SPDX-License-Identifier: GPL-2.0-only */
/* The virtio network device, as open.c makes it: device.c. */
#ifndef OUTBOARD_POSIX_NET_DEVICE_H
#define OUTBOARD_POSIX_NET_DEVICE_H

#include "../virtio.h"
#include "backend.h"

/*
 * `mac`: 6 bytes; NULL: random ones. `pairs_most`: queue pairs that a back-end may have. Returns
 * NULL if there is no memory or no randomness.
 */
struct ob_net_port *ob_net_port_new(struct ob_host *host, const uint8_t *mac,
				    unsigned int pairs_most);

/* Before any other use. The device then owns both, and closes them. `capture` may be NULL. */
struct ob_virtio_device *ob_net_port_complete(struct ob_net_port *port,
					      struct ob_net_backend *backend,
					      struct ob_net_capture *capture);

/* Frees a port that never became a device. */
void ob_net_port_free(struct ob_net_port *port);

#endif
