/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtio devices of the POSIX platform:
 *
 *   virtio.c			the hypercalls: the table of devices, and which device a call is for
 *   devices/virtqueue.c	the device's side of a queue
 *   devices/net/		network devices and their back-ends
 *   devices/fs/			directories of the host
 */
#ifndef OUTBOARD_POSIX_VIRTIO_H
#define OUTBOARD_POSIX_VIRTIO_H

#include "internal.h"

struct ob_virtio_device;

/* The calls of the virtio group, for one device. Rules and errors are those of the group. */
struct ob_virtio_operations {
	void (*read)(struct ob_virtio_device *device, uint32_t offset, void *bytes, uint32_t size);
	int (*features)(struct ob_virtio_device *device, uint64_t features);
	int (*queue)(struct ob_virtio_device *device, uint32_t index,
		     const struct ob_virtio_queue *queue);
	int (*start)(struct ob_virtio_device *device, uint32_t interrupt);
	void (*notify)(struct ob_virtio_device *device, uint32_t index);
	int (*reset)(struct ob_virtio_device *device);
	/*
	 * Looks once for what has arrived, and hands it over. `is_last`: the device's own thread
	 * looks from now on. Never blocks. Calls for one device never overlap.
	 */
	void (*poll)(struct ob_virtio_device *device, bool is_last);
	/* Frees the device. */
	void (*close)(struct ob_virtio_device *device);
	/* In a fork()ed child, instead of close(): closes the descriptors, frees the device. */
	void (*forked)(struct ob_virtio_device *device);
};

/* A device embeds this as its first member. */
struct ob_virtio_device {
	const struct ob_virtio_operations *operations;
	struct ob_virtio_info info;
	bool is_polled;			/* `poll` may find something */
	uint32_t number;
	bool taken;			/* by the kernel; atomic */
};

/* Puts a device into the table. Returns its number, or -ENOSPC. Any thread. */
int ob_virtio_insert(struct ob_host *host, struct ob_virtio_device *device);

/* NULL: there is none of that number. Nothing keeps the device. */
struct ob_virtio_device *ob_virtio_find(struct ob_host *host, uint32_t number);

/* Closes the device if the kernel has not taken it. Blocks. */
void ob_virtio_withdraw(struct ob_host *host, uint32_t number);

#endif
