/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The operations. `serve.c` has checked that the body has the operation's structure, and as many
 * names as it needs, and that `request->node` is there. An operation returns the bytes of its
 * reply, in `share->reply` or, with `is_placed`, in the kernel's memory; or -errno.
 */
#ifndef OUTBOARD_DEVICES_FS_OPERATIONS_H
#define OUTBOARD_DEVICES_FS_OPERATIONS_H

#include "share.h"

typedef long ob_fs_operation(struct ob_fs_share *share, struct ob_fs_request *request);

/* names.c */
ob_fs_operation ob_fs_lookup, ob_fs_forget, ob_fs_batch_forget, ob_fs_symlink, ob_fs_mknod,
	ob_fs_mkdir, ob_fs_link, ob_fs_create, ob_fs_unlink, ob_fs_rmdir, ob_fs_rename,
	ob_fs_rename2;
/* status.c */
ob_fs_operation ob_fs_getattr, ob_fs_setattr, ob_fs_readlink, ob_fs_statfs, ob_fs_syncfs;
/* file.c */
ob_fs_operation ob_fs_open, ob_fs_read, ob_fs_write, ob_fs_flush, ob_fs_release, ob_fs_fsync,
	ob_fs_fallocate, ob_fs_lseek, ob_fs_copy_file_range;
/* directory.c */
ob_fs_operation ob_fs_opendir, ob_fs_readdir, ob_fs_readdirplus, ob_fs_releasedir, ob_fs_fsyncdir;
/* xattr.c */
ob_fs_operation ob_fs_setxattr, ob_fs_getxattr, ob_fs_listxattr, ob_fs_removexattr;

/* ---- what they share -------------------------------------------------------- */

/* status.c: the number of a file that programs see. */
uint64_t ob_fs_inode_number(const struct ob_fs_share *share, dev_t device, ino_t inode);
/* status.c: fills in what the kernel gets to know of a file. `fd` may be an O_PATH one. */
void ob_fs_fill_attributes(const struct ob_fs_share *share, int fd, const struct stat *host,
			   struct fuse_attr *attributes);
/* How long attributes and names hold, in seconds. */
uint64_t ob_fs_seconds(const struct ob_fs_share *share);

/* names.c: looks a name up for the kernel, which then has to forget the node. */
int ob_fs_enter(struct ob_fs_share *share, struct ob_fs_node *directory, const char *name,
		struct fuse_entry_out *entry);

/* file.c: opens a regular file with the flags of a program. */
int ob_fs_open_node(struct ob_fs_share *share, struct ob_fs_node *node, uint32_t flags);
uint32_t ob_fs_host_flags(uint32_t flags);
/* FOPEN_*: how the kernel caches a file that was opened so. */
uint32_t ob_fs_open_flags(const struct ob_fs_share *share, uint32_t flags);

/* The structure at the beginning of the body. */
#define ob_fs_body(request, type) ((const type *)(const void *)(request)->body)
/* The names after it. */
#define ob_fs_name(request, type) ((request)->body + sizeof(type))
/* A reply of this type, all zeroes. */
#define ob_fs_reply(share, type) ((type *)memset((share)->reply, 0, sizeof(type)))

#endif
