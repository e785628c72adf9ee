/* SPDX-License-Identifier: GPL-2.0-only */
/* A virtio device, for the files virtio*.c. */
#ifndef OUTBOARD_DRIVERS_VIRTIO_DEVICE_H
#define OUTBOARD_DRIVERS_VIRTIO_DEVICE_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/virtio.h>
#include <outboard/hypercall.h>

/* The number of no device of the host: calls for it do nothing, or fail with -ENODEV. */
#define OB_VIRTIO_NONE U32_MAX

struct ob_virtio {
	struct virtio_device device;
	struct ob_virtio_info info;
	u32 number;			/* the host's; OB_VIRTIO_NONE: a spare device */
	u32 config_interrupt;		/* 0: none is allocated */
	u8 status;
	struct list_head list;
};

extern const struct virtio_config_ops ob_virtio_operations;

/* What a queue's `priv` points to. */
struct ob_virtio_vq {
	u32 interrupt;			/* 0: the queue has no callback */
};

/* All devices, in the order in which they were added. Under the lock. */
extern struct list_head ob_virtios;
extern struct mutex ob_virtios_lock;

/* So many more, or fewer, are in use: threads that wait serve them. Under the lock, or at rest. */
void ob_virtio_count(int change);

static inline struct ob_virtio *ob_virtio_of(struct virtio_device *device)
{
	return container_of(device, struct ob_virtio, device);
}

/*
 * Registers a device of the host and has its driver bound. `name`: receives that of its network
 * interface, or "". Returns an error pointer on failure. Blocks.
 */
struct ob_virtio *ob_virtio_add(u32 number, const struct ob_virtio_info *info, char *name);

/* Unregisters the device with this number of the host. -ENOENT: there is none. Blocks. */
int ob_virtio_remove(u32 number);

/* Tells the host where the queue is. The host's error. */
int ob_virtio_offer_vq(struct ob_virtio *virtio, struct virtqueue *queue);

#ifdef CONFIG_NET
/*
 * Gives the host's device to a spare one, and stores the name of its interface. -ENOENT: none is
 * like it. After another error the spare device is gone. Blocks.
 */
int ob_virtio_spare_use(u32 number, const struct ob_virtio_info *info, char *name);
#else
static inline int ob_virtio_spare_use(u32 number, const struct ob_virtio_info *info, char *name)
{
	return -ENOENT;
}
#endif

#endif
