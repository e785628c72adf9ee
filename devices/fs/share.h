/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A directory of the host that the kernel sees as a virtiofs file system: a FUSE server.
 *
 *   device.c	the virtio device: its queues, and the thread that serves them
 *   open.c	offers the device to the library
 *   share.c	opens and closes the directory
 *   serve.c	one request: bounds, the table of operations, the reply
 *   node.c	files that the kernel has looked up, by number
 *   handle.c	files that the kernel has opened, by number
 *   owner.c	owners and modes: the host's, or those kept in an attribute
 *   names.c	operations on names: look up, create, link, rename, delete
 *   status.c	operations on metadata
 *   file.c	operations on open files
 *   directory.c	operations on open directories
 *   xattr.c	extended attributes
 *   proc.h	paths and calls of the host
 *
 * The kernel is a stranger: it may have been taken over by a program. It names files by numbers of
 * tables, never by pointers, and by names without a slash. Each call of the host uses the
 * descriptor of a directory and one such name, and follows no symbolic link. So nothing outside of
 * the directory is reached, whatever another process of the host renames meanwhile. A request is
 * copied before it is read, but for the bytes of a write.
 *
 * One thread uses all of this: the device's. There are no locks.
 */
#ifndef OUTBOARD_DEVICES_FS_SHARE_H
#define OUTBOARD_DEVICES_FS_SHARE_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* Most bytes of a request and of a reply, but for the contents of files. */
#define OB_FS_REQUEST_MOST (128u << 10)
#define OB_FS_REPLY_MOST (64u << 10)

/* Most files that the kernel may know at a time. */
#define OB_FS_NODES_MOST (1u << 20)

/* Most directories above a file, as far as the tables follow them. */
#define OB_FS_DEPTH_MOST 4096

enum ob_fs_cache {
	OB_FS_CACHE_AUTO,		/* what the kernel knows holds for a second */
	OB_FS_CACHE_NONE,
	OB_FS_CACHE_ALWAYS,		/* no other process changes the files */
};

/* A file that the kernel has looked up. */
struct ob_fs_node {
	uint64_t id;
	dev_t device;
	ino_t inode;
	mode_t type;			/* S_IFREG, ... */
	int fd;				/* O_PATH; -1: it was closed, and can be opened again */
	bool is_pinned;			/* no name leads to the file: `fd` stays open */
	uint64_t request;		/* the last one that used `fd` */
	uint64_t lookups;		/* that the kernel has not forgotten */
	uint32_t uses;			/* nodes below, and open files */
	struct ob_fs_node *parent;	/* NULL: the root */
	char *name;
	struct ob_fs_node *next_of_id, *next_of_inode;
	struct ob_fs_node *newer, *older;	/* with an open `fd` */
};

struct ob_fs_nodes {
	struct ob_fs_node *root;
	struct ob_fs_node **by_id, **by_inode;	/* `slots` lists each */
	uint32_t slots;
	uint32_t count;
	uint64_t last_id;
	struct ob_fs_node *newest, *oldest;
	uint32_t open;			/* descriptors */
	uint32_t open_most;
};

/* A file that the kernel has opened. */
struct ob_fs_handle {
	struct ob_fs_node *node;	/* NULL: the entry is free */
	int fd;
	uint32_t generation;
	struct ob_fs_listing *listing;	/* of a directory; directory.c */
};

struct ob_fs_handles {
	struct ob_fs_handle *entries;
	uint32_t count;			/* allocated */
	uint32_t used;
	uint32_t most;
};

struct ob_fs_share {
	struct ob_fs_nodes nodes;
	struct ob_fs_handles handles;
	char *only;			/* the one name that the root has; NULL: all */
	bool is_read_only;
	bool has_owners;		/* the process is root: owners are the host's */
	bool is_mounted;		/* between INIT and DESTROY; atomic */
	enum ob_fs_cache cache;
	uid_t user;			/* of the process: 0 in the kernel */
	gid_t group;
	uint64_t request;		/* counts them */
	/* A bit for each descriptor that is open, for a fork()ed child. */
	uint64_t *open;
	uint32_t open_words;
	_Alignas(8) char body[OB_FS_REQUEST_MOST + 1];
	_Alignas(8) char reply[OB_FS_REPLY_MOST];
};

struct ob_fs_request {
	struct fuse_in_header header;
	const char *body;		/* a copy of what follows the header; a NUL follows it */
	size_t length;
	const struct iovec *in;		/* of a write: the bytes, which may change at any time */
	int in_count;
	const struct iovec *out;	/* room for the reply, without its header */
	int out_count;
	size_t room;			/* bytes in `out` */
	struct ob_fs_node *node;	/* of the header */
	bool is_placed;			/* the reply is in `out` already */
};

/*
 * Carries one request out: `pieces` are the kernel's memory, of which the first `readable` have the
 * request, and the others room for the reply. Returns the length of the reply.
 */
uint32_t ob_fs_serve(struct ob_fs_share *share, const struct iovec *pieces, int readable,
		     int count);

struct ob_fs_settings {
	const char *path;
	bool is_read_only;
	enum ob_fs_cache cache;
	bool keeps_owners;		/* also for root: owners are kept in attributes */
};

/* -errno: `error` has a line that names the path and the reason. */
int ob_fs_share_open(const struct ob_fs_settings *settings, struct ob_fs_share **share,
		     char *error, size_t size);
void ob_fs_share_close(struct ob_fs_share *share);
/* In a fork()ed child. `is_busy`: the parent's thread was changing the tables. */
void ob_fs_share_forked(struct ob_fs_share *share, bool is_busy);

#endif
