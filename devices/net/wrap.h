/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bytes in a ring whose size is a power of two. A position counts all bytes since the beginning,
 * so bytes at the end of the ring continue at its start.
 */
#ifndef OUTBOARD_DEVICES_NET_WRAP_H
#define OUTBOARD_DEVICES_NET_WRAP_H

#include <stddef.h>
#include <string.h>

static inline size_t ob_net_before_end(size_t size, size_t position, size_t count)
{
	size_t left = size - (position & (size - 1));

	return left < count ? left : count;
}

static inline void ob_net_copy_in(unsigned char *ring, size_t size, size_t position,
				  const void *bytes, size_t count)
{
	size_t first = ob_net_before_end(size, position, count);

	memcpy(ring + (position & (size - 1)), bytes, first);
	memcpy(ring, (const char *)bytes + first, count - first);
}

static inline void ob_net_copy_out(const unsigned char *ring, size_t size, size_t position,
				   void *bytes, size_t count)
{
	size_t first = ob_net_before_end(size, position, count);

	memcpy(bytes, ring + (position & (size - 1)), first);
	memcpy((char *)bytes + first, ring, count - first);
}

#endif
