/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The device's side of a split virtqueue (virtio specification 1.2, section 2.7), without locks:
 * one thread at a time uses a queue.
 *
 * The driver is the kernel of this process, or a stranger behind a vhost-user front-end. A device
 * never believes what it reads: each index, address and length is read once and checked. A wrong
 * one breaks the queue, which then has no more buffers.
 */
#ifndef OUTBOARD_DEVICES_VIRTQUEUE_H
#define OUTBOARD_DEVICES_VIRTQUEUE_H

#include <linux/virtio_ring.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "internal.h"

/* Most parts of the memory that the driver's addresses name. */
#define OB_VIRTQUEUE_PARTS 8

/* The memory that the driver's addresses name. No range of addresses is in two parts. */
struct ob_virtqueue_memory {
	unsigned int count;
	struct ob_virtqueue_part {
		uint64_t address;	/* the driver's */
		uint64_t size;
		char *bytes;
	} parts[OB_VIRTQUEUE_PARTS];
};

/* Most descriptors of a chain, indirect ones included. */
#define OB_VIRTQUEUE_PIECES 264

struct ob_virtqueue {
	const struct ob_virtqueue_memory *memory;	/* NULL: the queue is not set up */
	const struct vring_desc *descriptors;
	struct vring_avail *available;
	struct vring_used *used;
	uint16_t size;			/* a power of two */
	uint16_t taken;			/* index of the next buffer to take from `available` */
	uint16_t returned;		/* index of the next entry of `used` to write */
	uint16_t signalled;		/* what `returned` was at the last look for an interrupt */
	bool event_index;		/* VIRTIO_RING_F_EVENT_IDX */
	bool broken;
	bool reported;			/* for the owner: it has logged that the queue is broken */
	uint32_t interrupt;		/* 0: the driver polls */
};

/* One buffer of the driver: what the device reads comes first, then what it writes. */
struct ob_virtqueue_chain {
	struct iovec pieces[OB_VIRTQUEUE_PIECES];
	int count;
	int readable;			/* the first ones, which the device only reads */
	uint16_t head;
};

/* The memory of the kernel of this process: its RAM. */
struct ob_virtqueue_memory ob_virtqueue_ram(const struct ob_host *host);

/*
 * Sets a queue up in memory that stays as long as the queue. -EINVAL: a part of the queue is
 * outside of the memory or misaligned, or the size is wrong.
 */
int ob_virtqueue_set(struct ob_virtqueue *queue, const struct ob_virtqueue_memory *memory,
		     const struct ob_virtio_queue *from);

/* Takes the next buffer. False: there is none, or the queue is broken. */
bool ob_virtqueue_take(struct ob_virtqueue *queue, struct ob_virtqueue_chain *chain);

/* Gives a buffer back, with `length` bytes written. The driver sees it after the next call. */
void ob_virtqueue_return(struct ob_virtqueue *queue, uint16_t head, uint32_t length);
void ob_virtqueue_publish(struct ob_virtqueue *queue);

/* Whether the driver wants an interrupt for what was published since the last call. */
bool ob_virtqueue_wants_interrupt(struct ob_virtqueue *queue);

/* Whether the driver has each buffer back that it has offered. Any thread. */
bool ob_virtqueue_is_idle(const struct ob_virtqueue *queue);

/*
 * Asks the driver to notify the device of its next buffer. True: there is one already. Until this
 * call, and after a notification, the driver need not notify.
 */
bool ob_virtqueue_ask_notify(struct ob_virtqueue *queue);

#endif
