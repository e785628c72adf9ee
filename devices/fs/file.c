// SPDX-License-Identifier: GPL-2.0-only
/* Operations on open files. Contents go between the file and the kernel's memory directly. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <string.h>

#include "../virtqueue.h"
#include "handle.h"
#include "node.h"
#include "operations.h"
#include "owner.h"
#include "proc.h"

/* Bytes that one copy_file_range() of the host copies, so that a halt need not wait long. */
#define COPY_MOST (64ull << 20)

/* Flags of a program that its file on the host gets, too. Appending: ob_fs_write(). */
uint32_t ob_fs_host_flags(uint32_t flags)
{
	return flags & (O_ACCMODE | O_SYNC | O_DSYNC | O_TRUNC);
}

static bool writes(uint32_t flags)
{
	return (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
}

/* A read-only file has nothing that its close could report. */
uint32_t ob_fs_open_flags(const struct ob_fs_share *share, uint32_t flags)
{
	uint32_t result = writes(flags) ? 0 : FOPEN_NOFLUSH;

	return share->cache == OB_FS_CACHE_ALWAYS ? result | FOPEN_KEEP_CACHE : result;
}

int ob_fs_open_node(struct ob_fs_share *share, struct ob_fs_node *node, uint32_t flags)
{
	int fd = ob_fs_node_fd(share, node);

	if (fd < 0)
		return fd;
	/* The kernel has devices and FIFOs of its own. Opening one of the host may block. */
	if (!S_ISREG(node->type))
		return S_ISDIR(node->type) ? -EISDIR : -ENXIO;
	return ob_fs_open_at(share, AT_FDCWD, ob_fs_path_of(fd).text,
			     (int)ob_fs_host_flags(flags) | O_NONBLOCK, 0);
}

long ob_fs_open(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_open_in *in = ob_fs_body(request, struct fuse_open_in);
	uint32_t flags = in->flags, open_flags = in->open_flags;
	struct fuse_open_out *out;
	int fd, error;

	if (share->is_read_only && writes(flags))
		return -EROFS;
	fd = ob_fs_open_node(share, request->node, flags);
	if (fd < 0)
		return fd;
	if (flags & O_TRUNC && open_flags & FUSE_OPEN_KILL_SUIDGID)
		ob_fs_owner_drop_privileges(share, fd);
	out = ob_fs_reply(share, struct fuse_open_out);
	error = ob_fs_handle_add(share, request->node, fd, NULL, &out->fh);
	out->open_flags = ob_fs_open_flags(share, flags);
	return error ? error : (long)sizeof(*out);
}

/* Stores the pieces that have the first `size` bytes. Returns how many pieces. */
static int cut(struct iovec *to, const struct iovec *pieces, int count, size_t size)
{
	int kept = 0;

	for (int i = 0; i < count && size; i++) {
		size_t part = pieces[i].iov_len < size ? pieces[i].iov_len : size;

		if (!part)
			continue;
		to[kept++] = (struct iovec){ pieces[i].iov_base, part };
		size -= part;
	}
	return kept;
}

long ob_fs_read(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_read_in *in = ob_fs_body(request, struct fuse_read_in);
	const struct ob_fs_handle *handle = ob_fs_handle_file(share, in->fh);
	struct iovec pieces[OB_VIRTQUEUE_PIECES];
	ssize_t done;
	int count;

	if (!handle)
		return -EBADF;
	if (in->offset > INT64_MAX)
		return -EINVAL;
	count = cut(pieces, request->out, request->out_count, in->size);
	do
		done = raw_preadv2(handle->fd, pieces, count, (off_t)in->offset, 0);
	while (done < 0 && errno == EINTR);
	request->is_placed = true;
	return done < 0 ? -errno : done;
}

/* The kernel writes back pages of mappings at their own places, whatever the file's flags are. */
static int write_flags(const struct fuse_write_in *in)
{
	bool appends = in->flags & O_APPEND && !(in->write_flags & FUSE_WRITE_CACHE);

	return appends ? RWF_APPEND : 0;
}

long ob_fs_write(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_write_in *in = ob_fs_body(request, struct fuse_write_in);
	const struct ob_fs_handle *handle = ob_fs_handle_file(share, in->fh);
	struct iovec pieces[OB_VIRTQUEUE_PIECES];
	struct fuse_write_out *out;
	bool drops = in->write_flags & FUSE_WRITE_KILL_SUIDGID;
	ssize_t done;
	int count, error;

	if (!handle)
		return -EBADF;
	if (in->offset > INT64_MAX)
		return -EINVAL;
	error = drops ? ob_fs_owner_drop_privileges(share, handle->fd) : 0;
	if (error)
		return error;
	count = cut(pieces, request->in, request->in_count, in->size);
	do
		done = raw_pwritev2(handle->fd, pieces, count, (off_t)in->offset, write_flags(in));
	while (done < 0 && errno == EINTR);
	if (done < 0)
		return -errno;
	out = ob_fs_reply(share, struct fuse_write_out);
	out->size = (uint32_t)done;
	return sizeof(*out);
}

/* Hosts such as NFS report at a close that a write has failed. */
long ob_fs_flush(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_flush_in *in = ob_fs_body(request, struct fuse_flush_in);
	const struct ob_fs_handle *handle = ob_fs_handle_file(share, in->fh);
	int copy;

	if (!handle)
		return -EBADF;
	copy = raw_fcntl(handle->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	/* Without a descriptor, the error comes with the next fsync. */
	return copy < 0 ? 0 : ob_fs_result(raw_close(copy));
}

long ob_fs_release(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_release_in *in = ob_fs_body(request, struct fuse_release_in);
	struct ob_fs_handle *handle = ob_fs_handle_file(share, in->fh);

	if (!handle)
		return -EBADF;
	ob_fs_handle_close(share, handle);
	return 0;
}

long ob_fs_fsync(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_fsync_in *in = ob_fs_body(request, struct fuse_fsync_in);
	const struct ob_fs_handle *handle = ob_fs_handle_file(share, in->fh);

	if (!handle)
		return -EBADF;
	return ob_fs_result(in->fsync_flags & FUSE_FSYNC_FDATASYNC ? raw_fdatasync(handle->fd)
								   : raw_fsync(handle->fd));
}

#define FALLOCATE_MODES (FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)

long ob_fs_fallocate(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_fallocate_in *in = ob_fs_body(request, struct fuse_fallocate_in);
	const struct ob_fs_handle *handle = ob_fs_handle_file(share, in->fh);
	int result;

	if (!handle)
		return -EBADF;
	if (in->mode & ~(uint32_t)FALLOCATE_MODES)
		return -EOPNOTSUPP;
	if (in->offset > INT64_MAX || in->length > INT64_MAX)
		return -EINVAL;
	do
		result = raw_fallocate(handle->fd, (int)in->mode, (off_t)in->offset,
				       (off_t)in->length);
	while (result && errno == EINTR);
	return ob_fs_result(result);
}

/* The kernel itself knows the other places. */
long ob_fs_lseek(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_lseek_in *in = ob_fs_body(request, struct fuse_lseek_in);
	const struct ob_fs_handle *handle = ob_fs_handle_file(share, in->fh);
	struct fuse_lseek_out *out;
	off_t place;

	if (!handle)
		return -EBADF;
	if (in->offset > INT64_MAX || (in->whence != SEEK_DATA && in->whence != SEEK_HOLE))
		return -EINVAL;
	place = lseek(handle->fd, (off_t)in->offset, (int)in->whence);
	if (place < 0)
		return -errno;
	out = ob_fs_reply(share, struct fuse_lseek_out);
	out->offset = (uint64_t)place;
	return sizeof(*out);
}

long ob_fs_copy_file_range(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_copy_file_range_in *in =
		ob_fs_body(request, struct fuse_copy_file_range_in);
	const struct ob_fs_handle *from = ob_fs_handle_file(share, in->fh_in);
	const struct ob_fs_handle *to = ob_fs_handle_file(share, in->fh_out);
	off_t from_place = (off_t)in->off_in, to_place = (off_t)in->off_out;
	struct fuse_write_out *out;
	ssize_t done;

	if (!from || !to)
		return -EBADF;
	if (in->off_in > INT64_MAX || in->off_out > INT64_MAX || in->flags)
		return -EINVAL;
	done = raw_copy_file_range(from->fd, &from_place, to->fd, &to_place,
				   in->len < COPY_MOST ? in->len : COPY_MOST);
	if (done < 0)
		return -errno;
	out = ob_fs_reply(share, struct fuse_write_out);
	out->size = (uint32_t)done;
	return sizeof(*out);
}
