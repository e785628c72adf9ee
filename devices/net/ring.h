/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A bounded ring of bytes between two threads: one puts bytes in, one takes them out. Neither waits
 * for the other, and there is no lock. Putting, and asking for emptiness, are sequentially
 * consistent: a thread can announce that it will sleep, and then ask.
 */
#ifndef OUTBOARD_DEVICES_NET_RING_H
#define OUTBOARD_DEVICES_NET_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct ob_net_ring {
	unsigned char *bytes;
	size_t size;					/* a power of two */
	_Alignas(64) size_t taken;			/* in all; atomic; of the taker */
	_Alignas(64) size_t put;			/* in all; atomic; of the putter */
};

/* -ENOMEM. */
int ob_net_ring_init(struct ob_net_ring *ring, size_t size);
void ob_net_ring_free(struct ob_net_ring *ring);

/* Has the taker taken everything? */
bool ob_net_ring_is_empty(const struct ob_net_ring *ring);

/* Puts all bytes of the pieces. False: they do not fit, and nothing was put. */
bool ob_net_ring_put(struct ob_net_ring *ring, const struct iovec *pieces, int count);

/* The bytes to take next, without those that continue at the ring's beginning. Returns how many. */
size_t ob_net_ring_peek(const struct ob_net_ring *ring, const unsigned char **bytes);
/* Takes bytes that ob_net_ring_peek() has returned. */
void ob_net_ring_take(struct ob_net_ring *ring, size_t count);
/* Copies and takes bytes. The ring has so many. */
void ob_net_ring_copy(struct ob_net_ring *ring, void *bytes, size_t count);

#endif
