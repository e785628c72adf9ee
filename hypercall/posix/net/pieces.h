/* SPDX-License-Identifier: GPL-2.0-only */
/* A frame in pieces: its length, and the pieces behind its beginning. */
#ifndef OUTBOARD_POSIX_NET_PIECES_H
#define OUTBOARD_POSIX_NET_PIECES_H

#include <stddef.h>
#include <sys/uio.h>

static inline size_t ob_net_pieces_length(const struct iovec *pieces, int count)
{
	size_t length = 0;

	for (int i = 0; i < count; i++)
		length += pieces[i].iov_len;
	return length;
}

/* Stores the pieces without their first `skip` bytes. Returns how many pieces there are then. */
static inline int ob_net_pieces_skip(const struct iovec *pieces, int count, size_t skip,
				     struct iovec *rest)
{
	int kept = 0;

	for (int i = 0; i < count; i++) {
		size_t length = pieces[i].iov_len;

		if (skip >= length) {
			skip -= length;
			continue;
		}
		rest[kept].iov_base = (char *)pieces[i].iov_base + skip;
		rest[kept++].iov_len = length - skip;
		skip = 0;
	}
	return kept;
}

#endif
