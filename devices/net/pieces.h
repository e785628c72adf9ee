/* SPDX-License-Identifier: GPL-2.0-only */
/* A frame in pieces: its length, the pieces behind its beginning, and copies. */
#ifndef OUTBOARD_DEVICES_NET_PIECES_H
#define OUTBOARD_DEVICES_NET_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
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

/* False: there is no room for all of it. No byte outside of `to` is written. */
static inline bool ob_net_pieces_copy(const struct iovec *to, int to_count,
				      const struct iovec *from, int count)
{
	size_t at = 0;

	for (int i = 0; i < count; i++) {
		const char *bytes = from[i].iov_base;
		size_t left = from[i].iov_len;

		while (left) {
			size_t part;

			if (!to_count)
				return false;
			part = to->iov_len - at < left ? to->iov_len - at : left;
			memcpy((char *)to->iov_base + at, bytes, part);
			bytes += part;
			left -= part;
			at += part;
			if (at == to->iov_len) {
				to++;
				to_count--;
				at = 0;
			}
		}
	}
	return true;
}

#endif
