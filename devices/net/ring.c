// SPDX-License-Identifier: GPL-2.0-only
/* Network: a ring of bytes between two threads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"
#include "ring.h"
#include "wrap.h"

int ob_net_ring_init(struct ob_net_ring *ring, size_t size)
{
	memset(ring, 0, sizeof(*ring));
	ring->bytes = malloc(size);
	ring->size = size;
	return ring->bytes ? 0 : -ENOMEM;
}

void ob_net_ring_free(struct ob_net_ring *ring)
{
	free(ring->bytes);
	ring->bytes = NULL;
}

bool ob_net_ring_is_empty(const struct ob_net_ring *ring)
{
	return __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&ring->put, __ATOMIC_SEQ_CST);
}

bool ob_net_ring_put(struct ob_net_ring *ring, const struct iovec *pieces, int count)
{
	size_t put = __atomic_load_n(&ring->put, __ATOMIC_RELAXED);
	size_t taken = __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE);

	if (ob_net_pieces_length(pieces, count) > ring->size - (put - taken))
		return false;
	for (int i = 0; i < count; i++) {
		ob_net_copy_in(ring->bytes, ring->size, put, pieces[i].iov_base,
			       pieces[i].iov_len);
		put += pieces[i].iov_len;
	}
	__atomic_store_n(&ring->put, put, __ATOMIC_SEQ_CST);
	return true;
}

size_t ob_net_ring_peek(const struct ob_net_ring *ring, const unsigned char **bytes)
{
	size_t taken = __atomic_load_n(&ring->taken, __ATOMIC_RELAXED);
	size_t count = __atomic_load_n(&ring->put, __ATOMIC_ACQUIRE) - taken;

	*bytes = ring->bytes + (taken & (ring->size - 1));
	return ob_net_before_end(ring->size, taken, count);
}

void ob_net_ring_take(struct ob_net_ring *ring, size_t count)
{
	size_t taken = __atomic_load_n(&ring->taken, __ATOMIC_RELAXED);

	__atomic_store_n(&ring->taken, taken + count, __ATOMIC_RELEASE);
}

void ob_net_ring_copy(struct ob_net_ring *ring, void *bytes, size_t count)
{
	while (count) {
		const unsigned char *from;
		size_t some = ob_net_ring_peek(ring, &from);

		if (some > count)
			some = count;
		memcpy(bytes, from, some);
		ob_net_ring_take(ring, some);
		bytes = (char *)bytes + some;
		count -= some;
	}
}
