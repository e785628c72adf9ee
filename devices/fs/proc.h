/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Descriptors of a share, and the paths by which the host takes one that was opened with O_PATH.
 *
 * Such a path is a link of /proc to the file itself, not a name: no other file can come in its
 * place.
 */
#ifndef OUTBOARD_DEVICES_FS_PROC_H
#define OUTBOARD_DEVICES_FS_PROC_H

#include <errno.h>
#include <stdio.h>

#include "raw.h"
#include "share.h"

struct ob_fs_path {
	char text[32];
};

static inline struct ob_fs_path ob_fs_path_of(int fd)
{
	struct ob_fs_path path;

	snprintf(path.text, sizeof(path.text), "/proc/self/fd/%d", fd);
	return path;
}

/* 0 or -errno, from 0 or -1. */
static inline int ob_fs_result(long result)
{
	return result < 0 ? -errno : 0;
}

/* Notes that the descriptor is open. Returns it, or -errno. */
static inline int ob_fs_note(struct ob_fs_share *share, int fd)
{
	if (fd < 0)
		return errno == EMFILE ? -ENFILE : -errno;
	if ((uint32_t)fd / 64 >= share->open_words) {
		raw_close(fd);
		return -ENFILE;
	}
	__atomic_or_fetch(&share->open[fd / 64], 1ull << (fd % 64), __ATOMIC_RELAXED);
	return fd;
}

static inline void ob_fs_close(struct ob_fs_share *share, int fd)
{
	__atomic_and_fetch(&share->open[fd / 64], ~(1ull << (fd % 64)), __ATOMIC_RELAXED);
	raw_close(fd);
}

#endif
