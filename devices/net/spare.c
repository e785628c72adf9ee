// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device of a spare interface, while a snapshot is made: a port of a hub that is not there. It
 * offers what a hub's port offers, so that a hub's port can have the interface later.
 */
#include <errno.h>
#include <stdlib.h>

#include "device.h"
#include "hub.h"

/* Nobody receives. */
static int transmit(struct ob_net_backend *backend, unsigned int queue, const struct iovec *pieces,
		    int count)
{
	(void)backend;
	(void)queue;
	(void)pieces;
	(void)count;
	return 0;
}

static void close_spare(struct ob_net_backend *backend)
{
	free(backend);
}

static const struct ob_net_backend_operations operations = {
	.transmit = transmit,
	.close = close_spare,
	.forked = close_spare,
};

int ob_host_virtio_spare(struct ob_host *host)
{
	struct ob_net_backend *backend = calloc(1, sizeof(*backend));
	struct ob_net_port *port = backend ? ob_net_port_new(host, NULL, 1) : NULL;
	struct ob_virtio_device *device;
	int number;

	if (!port) {
		free(backend);
		return -ENOMEM;
	}
	*backend = (struct ob_net_backend) {
		.operations = &operations,
		.offloads = OB_HUB_OFFLOADS,
		.queues = 1,
	};
	device = ob_net_port_complete(port, backend, NULL);
	number = ob_virtio_insert(host, device);
	if (number < 0)
		device->operations->close(device);
	return number;
}
