/* SPDX-License-Identifier: GPL-2.0-only */
/* Files that the kernel has opened, by number: a place of a table, and a count of its uses. */
#ifndef OUTBOARD_DEVICES_FS_HANDLE_H
#define OUTBOARD_DEVICES_FS_HANDLE_H

#include "share.h"

/*
 * Takes the descriptor over, also if it fails. Stores the number. -ENFILE: the kernel has opened
 * too many files; -ENOMEM.
 */
int ob_fs_handle_add(struct ob_fs_share *share, struct ob_fs_node *node, int fd,
		     struct ob_fs_listing *listing, uint64_t *number);

/* NULL: there is no such file, or none that is a file (a directory). */
struct ob_fs_handle *ob_fs_handle_file(struct ob_fs_share *share, uint64_t number);
struct ob_fs_handle *ob_fs_handle_directory(struct ob_fs_share *share, uint64_t number);

void ob_fs_handle_close(struct ob_fs_share *share, struct ob_fs_handle *handle);
void ob_fs_handles_reset(struct ob_fs_share *share);

#endif
