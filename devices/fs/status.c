// SPDX-License-Identifier: GPL-2.0-only
/* Operations on metadata. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include "handle.h"
#include "node.h"
#include "operations.h"
#include "owner.h"
#include "proc.h"

#define ALWAYS_SECONDS 86400u

uint64_t ob_fs_seconds(const struct ob_fs_share *share)
{
	switch (share->cache) {
	case OB_FS_CACHE_NONE:
		return 0;
	case OB_FS_CACHE_ALWAYS:
		return ALWAYS_SECONDS;
	default:
		return 1;
	}
}

/*
 * Below the directory there may be other file systems, whose files have equal numbers. Programs
 * take files of one number for one file.
 */
uint64_t ob_fs_inode_number(const struct ob_fs_share *share, dev_t device, ino_t inode)
{
	dev_t root = share->nodes.root->device;

	return device == root ? inode : inode ^ (uint64_t)device << 40;
}

void ob_fs_fill_attributes(const struct ob_fs_share *share, int fd, const struct stat *host,
			   struct fuse_attr *attributes)
{
	struct ob_fs_owner owner = ob_fs_owner_read(share, fd, host);

	*attributes = (struct fuse_attr){
		.ino = ob_fs_inode_number(share, host->st_dev, host->st_ino),
		.size = (uint64_t)host->st_size,
		.blocks = (uint64_t)host->st_blocks,
		.atime = (uint64_t)host->st_atim.tv_sec,
		.mtime = (uint64_t)host->st_mtim.tv_sec,
		.ctime = (uint64_t)host->st_ctim.tv_sec,
		.atimensec = (uint32_t)host->st_atim.tv_nsec,
		.mtimensec = (uint32_t)host->st_mtim.tv_nsec,
		.ctimensec = (uint32_t)host->st_ctim.tv_nsec,
		.mode = (host->st_mode & S_IFMT) | owner.mode,
		.nlink = (uint32_t)host->st_nlink,
		.uid = owner.uid,
		.gid = owner.gid,
		.rdev = (uint32_t)host->st_rdev,
		.blksize = (uint32_t)host->st_blksize,
	};
}

static long reply_attributes(struct ob_fs_share *share, int fd)
{
	struct fuse_attr_out *out = ob_fs_reply(share, struct fuse_attr_out);
	struct stat host;

	if (fstat(fd, &host))
		return -errno;
	out->attr_valid = ob_fs_seconds(share);
	ob_fs_fill_attributes(share, fd, &host, &out->attr);
	return sizeof(*out);
}

/* The descriptor of an open file, which works also after its node's path is gone. */
static int fd_of(struct ob_fs_share *share, struct ob_fs_node *node, bool has_handle, uint64_t fh)
{
	const struct ob_fs_handle *handle = has_handle ? ob_fs_handle_file(share, fh) : NULL;

	return handle && handle->node == node ? handle->fd : ob_fs_node_fd(share, node);
}

long ob_fs_getattr(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_getattr_in *in = ob_fs_body(request, struct fuse_getattr_in);
	int fd = fd_of(share, request->node, in->getattr_flags & FUSE_GETATTR_FH, in->fh);

	return fd < 0 ? fd : reply_attributes(share, fd);
}

/* ---- changing ------------------------------------------------------------------- */

#define OWNERS (FATTR_UID | FATTR_GID)

static int set_owner(const struct ob_fs_share *share, int fd, const struct fuse_setattr_in *in)
{
	struct ob_fs_owner owner;
	struct stat host;

	if (!(in->valid & (FATTR_MODE | OWNERS)))
		return 0;
	if (fstat(fd, &host))
		return -errno;
	owner = ob_fs_owner_read(share, fd, &host);
	/* A new owner gets no privileges of the old one. */
	if (in->valid & OWNERS && S_ISREG(host.st_mode))
		owner.mode = ob_fs_owner_plain_mode(owner.mode);
	if (in->valid & FATTR_UID)
		owner.uid = in->uid;
	if (in->valid & FATTR_GID)
		owner.gid = in->gid;
	if (in->valid & FATTR_MODE)
		owner.mode = in->mode & 07777;
	return ob_fs_owner_write(share, fd, &host, &owner);
}

static int set_size(struct ob_fs_share *share, const struct ob_fs_request *request, int fd,
		    const struct fuse_setattr_in *in)
{
	const struct ob_fs_handle *handle = in->valid & FATTR_FH ?
		ob_fs_handle_file(share, in->fh) : NULL;
	int error;

	if (!(in->valid & FATTR_SIZE))
		return 0;
	if (!S_ISREG(request->node->type) || in->size > INT64_MAX)
		return -EINVAL;
	if (handle && handle->node == request->node)
		error = ob_fs_result(ftruncate(handle->fd, (off_t)in->size));
	else
		error = ob_fs_result(truncate(ob_fs_path_of(fd).text, (off_t)in->size));
	if (!error && in->valid & FATTR_KILL_SUIDGID)
		error = ob_fs_owner_drop_privileges(share, fd);
	return error;
}

static struct timespec time_of(const struct fuse_setattr_in *in, uint32_t given, uint32_t now,
			       uint64_t seconds, uint32_t nanoseconds)
{
	if (in->valid & now)
		return (struct timespec){ 0, UTIME_NOW };
	if (in->valid & given)
		return (struct timespec){ (time_t)seconds, (long)nanoseconds };
	return (struct timespec){ 0, UTIME_OMIT };
}

static int set_times(int fd, const struct fuse_setattr_in *in)
{
	struct timespec times[2] = {
		time_of(in, FATTR_ATIME, FATTR_ATIME_NOW, in->atime, in->atimensec),
		time_of(in, FATTR_MTIME, FATTR_MTIME_NOW, in->mtime, in->mtimensec),
	};

	if (!(in->valid & (FATTR_ATIME | FATTR_MTIME | FATTR_ATIME_NOW | FATTR_MTIME_NOW)))
		return 0;
	return ob_fs_result(utimensat(AT_FDCWD, ob_fs_path_of(fd).text, times, 0));
}

long ob_fs_setattr(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_setattr_in *in = ob_fs_body(request, struct fuse_setattr_in);
	int fd = fd_of(share, request->node, in->valid & FATTR_FH, in->fh), error;

	if (fd < 0)
		return fd;
	error = set_owner(share, fd, in);
	if (!error)
		error = set_size(share, request, fd, in);
	if (!error)
		error = set_times(fd, in);
	return error ? error : reply_attributes(share, fd);
}

/* ---- other things ------------------------------------------------------------------ */

long ob_fs_readlink(struct ob_fs_share *share, struct ob_fs_request *request)
{
	int fd = ob_fs_node_fd(share, request->node);
	ssize_t length;

	if (fd < 0)
		return fd;
	if (!S_ISLNK(request->node->type))
		return -EINVAL;
	length = readlinkat(fd, "", share->reply, OB_FS_REPLY_MOST);
	return length < 0 ? -errno : length;
}

long ob_fs_statfs(struct ob_fs_share *share, struct ob_fs_request *request)
{
	struct fuse_statfs_out *out = ob_fs_reply(share, struct fuse_statfs_out);
	int fd = ob_fs_node_fd(share, request->node);
	struct statfs host;

	if (fd < 0)
		return fd;
	if (fstatfs(fd, &host))
		return -errno;
	out->st = (struct fuse_kstatfs){
		.blocks = host.f_blocks,
		.bfree = host.f_bfree,
		.bavail = host.f_bavail,
		.files = host.f_files,
		.ffree = host.f_ffree,
		.bsize = (uint32_t)host.f_bsize,
		.namelen = (uint32_t)host.f_namelen,
		.frsize = (uint32_t)host.f_frsize,
	};
	return sizeof(*out);
}

long ob_fs_syncfs(struct ob_fs_share *share, struct ob_fs_request *request)
{
	int root = ob_fs_node_fd(share, share->nodes.root), fd, error;

	(void)request;
	fd = ob_fs_open_at(share, root, ".", O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	error = ob_fs_result(syncfs(fd));
	ob_fs_close(share, fd);
	return error;
}
