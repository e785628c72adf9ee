// SPDX-License-Identifier: GPL-2.0-only
/* One request: its bounds, its operation, the reply. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../net/pieces.h"
#include "../virtqueue.h"
#include "handle.h"
#include "node.h"
#include "operations.h"

/* Linux's most. The headers of such a request take four more pieces of a chain. */
#define PAGES_MOST 256u
#define KERNEL_PAGE 4096u

#define BACKGROUND_MOST 64

/* Always accepted, if the kernel offers it. */
#define WANTED (FUSE_ASYNC_READ | FUSE_ATOMIC_O_TRUNC | FUSE_BIG_WRITES | FUSE_AUTO_INVAL_DATA | \
		FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_PARALLEL_DIROPS | \
		FUSE_MAX_PAGES | FUSE_HANDLE_KILLPRIV_V2 | FUSE_INIT_EXT)

static void reset(struct ob_fs_share *share)
{
	ob_fs_handles_reset(share);
	ob_fs_nodes_reset(share);
}

static void set_mounted(struct ob_fs_share *share, bool is_mounted)
{
	__atomic_store_n(&share->is_mounted, is_mounted, __ATOMIC_RELEASE);
}

static uint64_t choose_flags(const struct ob_fs_share *share, const struct fuse_init_in *in)
{
	uint64_t offered = in->flags, wanted = WANTED;

	if (offered & FUSE_INIT_EXT)
		offered |= (uint64_t)in->flags2 << 32;
	if (share->cache == OB_FS_CACHE_ALWAYS)
		wanted |= FUSE_CACHE_SYMLINKS;
	return offered & wanted;
}

/* The kernel mounts the directory: it knows nothing of it yet. */
static long init(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_init_in *in = ob_fs_body(request, struct fuse_init_in);
	struct fuse_init_out *out = ob_fs_reply(share, struct fuse_init_out);
	uint64_t flags = choose_flags(share, in);

	reset(share);
	out->major = FUSE_KERNEL_VERSION;
	out->minor = FUSE_KERNEL_MINOR_VERSION;
	if (in->major != FUSE_KERNEL_VERSION)
		return in->major < FUSE_KERNEL_VERSION ? -EPROTO : (long)sizeof(*out);
	out->max_readahead = in->max_readahead;
	out->flags = (uint32_t)flags;
	out->flags2 = (uint32_t)(flags >> 32);
	out->max_background = BACKGROUND_MOST;
	out->congestion_threshold = BACKGROUND_MOST * 3 / 4;
	out->max_write = PAGES_MOST * KERNEL_PAGE;
	out->max_pages = PAGES_MOST;
	out->time_gran = 1;
	set_mounted(share, true);
	return sizeof(*out);
}

static long destroy(struct ob_fs_share *share, struct ob_fs_request *request)
{
	(void)request;
	reset(share);
	set_mounted(share, false);
	return 0;
}

/* ---- the table --------------------------------------------------------------- */

/* An operation changes the host's files: read-only shares refuse it. */
#define CHANGES 1u
/* The kernel waits for no reply. */
#define SILENT 2u
/* The number in the header is none of a file. */
#define NO_NODE 4u
/* What follows the structure is not copied. */
#define IN_PLACE 8u

/* It changes attributes of the file itself. */
#define ATTRIBUTES 16u

struct row {
	ob_fs_operation *function;
	uint16_t size;			/* of the structure at the beginning */
	uint8_t names;			/* that follow it */
	uint8_t flags;
};

static const struct row rows[] = {
	[FUSE_LOOKUP] = { ob_fs_lookup, 0, 1, 0 },
	[FUSE_FORGET] = { ob_fs_forget, sizeof(struct fuse_forget_in), 0, SILENT },
	[FUSE_GETATTR] = { ob_fs_getattr, sizeof(struct fuse_getattr_in), 0, 0 },
	[FUSE_SETATTR] = { ob_fs_setattr, sizeof(struct fuse_setattr_in), 0,
			   CHANGES | ATTRIBUTES },
	[FUSE_READLINK] = { ob_fs_readlink, 0, 0, 0 },
	[FUSE_SYMLINK] = { ob_fs_symlink, 0, 2, CHANGES },
	[FUSE_MKNOD] = { ob_fs_mknod, sizeof(struct fuse_mknod_in), 1, CHANGES },
	[FUSE_MKDIR] = { ob_fs_mkdir, sizeof(struct fuse_mkdir_in), 1, CHANGES },
	[FUSE_UNLINK] = { ob_fs_unlink, 0, 1, CHANGES },
	[FUSE_RMDIR] = { ob_fs_rmdir, 0, 1, CHANGES },
	[FUSE_RENAME] = { ob_fs_rename, sizeof(struct fuse_rename_in), 2, CHANGES },
	[FUSE_RENAME2] = { ob_fs_rename2, sizeof(struct fuse_rename2_in), 2, CHANGES },
	[FUSE_LINK] = { ob_fs_link, sizeof(struct fuse_link_in), 1, CHANGES },
	[FUSE_OPEN] = { ob_fs_open, sizeof(struct fuse_open_in), 0, 0 },
	[FUSE_READ] = { ob_fs_read, sizeof(struct fuse_read_in), 0, 0 },
	[FUSE_WRITE] = { ob_fs_write, sizeof(struct fuse_write_in), 0, CHANGES | IN_PLACE },
	[FUSE_STATFS] = { ob_fs_statfs, 0, 0, 0 },
	[FUSE_RELEASE] = { ob_fs_release, sizeof(struct fuse_release_in), 0, 0 },
	[FUSE_FSYNC] = { ob_fs_fsync, sizeof(struct fuse_fsync_in), 0, 0 },
	[FUSE_SETXATTR] = { ob_fs_setxattr, FUSE_COMPAT_SETXATTR_IN_SIZE, 1,
			    CHANGES | ATTRIBUTES },
	[FUSE_GETXATTR] = { ob_fs_getxattr, sizeof(struct fuse_getxattr_in), 1, 0 },
	[FUSE_LISTXATTR] = { ob_fs_listxattr, sizeof(struct fuse_getxattr_in), 0, 0 },
	[FUSE_REMOVEXATTR] = { ob_fs_removexattr, 0, 1, CHANGES | ATTRIBUTES },
	[FUSE_FLUSH] = { ob_fs_flush, sizeof(struct fuse_flush_in), 0, 0 },
	[FUSE_INIT] = { init, offsetof(struct fuse_init_in, unused), 0, NO_NODE },
	[FUSE_OPENDIR] = { ob_fs_opendir, sizeof(struct fuse_open_in), 0, 0 },
	[FUSE_READDIR] = { ob_fs_readdir, sizeof(struct fuse_read_in), 0, 0 },
	[FUSE_READDIRPLUS] = { ob_fs_readdirplus, sizeof(struct fuse_read_in), 0, 0 },
	[FUSE_RELEASEDIR] = { ob_fs_releasedir, sizeof(struct fuse_release_in), 0, 0 },
	[FUSE_FSYNCDIR] = { ob_fs_fsyncdir, sizeof(struct fuse_fsync_in), 0, 0 },
	[FUSE_CREATE] = { ob_fs_create, sizeof(struct fuse_create_in), 1, CHANGES },
	[FUSE_DESTROY] = { destroy, 0, 0, NO_NODE },
	[FUSE_BATCH_FORGET] = { ob_fs_batch_forget, sizeof(struct fuse_batch_forget_in), 0,
				SILENT | NO_NODE },
	[FUSE_FALLOCATE] = { ob_fs_fallocate, sizeof(struct fuse_fallocate_in), 0, CHANGES },
	[FUSE_LSEEK] = { ob_fs_lseek, sizeof(struct fuse_lseek_in), 0, 0 },
	[FUSE_COPY_FILE_RANGE] = { ob_fs_copy_file_range, sizeof(struct fuse_copy_file_range_in),
				   0, CHANGES },
	[FUSE_SYNCFS] = { ob_fs_syncfs, 0, 0, 0 },
};

static const struct row *find_row(uint32_t opcode)
{
	static const struct row interrupt = { .flags = SILENT };

	if (opcode == FUSE_INTERRUPT)
		return &interrupt;
	if (opcode >= sizeof(rows) / sizeof(rows[0]) || !rows[opcode].function)
		return NULL;
	return &rows[opcode];
}

/* ---- a request ---------------------------------------------------------------- */

/* Each name ends inside of the body. */
static bool has_names(const struct ob_fs_request *request, const struct row *row)
{
	size_t at = row->size;

	for (int i = 0; i < row->names; i++) {
		const char *end = at < request->length ?
			memchr(request->body + at, '\0', request->length - at) : NULL;

		if (!end)
			return false;
		at = (size_t)(end - request->body) + 1;
	}
	return true;
}

/* False: the pieces have fewer bytes. */
static bool copy_header(struct fuse_in_header *header, const struct iovec *pieces, int count)
{
	size_t done = 0;

	for (int i = 0; i < count && done < sizeof(*header); i++) {
		size_t left = sizeof(*header) - done;
		size_t part = pieces[i].iov_len < left ? pieces[i].iov_len : left;

		memcpy((char *)header + done, pieces[i].iov_base, part);
		done += part;
	}
	return done == sizeof(*header);
}

/* Copies up to `size` bytes behind the header. Returns how many. */
static size_t copy_body(struct ob_fs_share *share, const struct iovec *pieces, int count,
			size_t size)
{
	size_t done = 0;

	for (int i = 0; i < count && done < size; i++) {
		size_t part = pieces[i].iov_len < size - done ? pieces[i].iov_len : size - done;

		memcpy(share->body + done, pieces[i].iov_base, part);
		done += part;
	}
	share->body[done] = '\0';
	return done;
}

/*
 * Reads the request: `pieces` begin with its header. `rest` is room for pieces. Stores the row of
 * its operation. -errno: the request cannot be carried out.
 */
static int read_request(struct ob_fs_share *share, struct ob_fs_request *request,
			const struct iovec *pieces, int count, struct iovec *rest,
			const struct row **row)
{
	size_t length = ob_net_pieces_length(pieces, count) - sizeof(request->header);
	bool is_in_place;

	*row = find_row(request->header.opcode);
	if (!*row)
		return -ENOSYS;
	if (request->header.len != length + sizeof(request->header))
		return -EIO;
	is_in_place = (*row)->flags & IN_PLACE;
	if (!is_in_place && length > OB_FS_REQUEST_MOST)
		return -E2BIG;
	request->in = rest;
	request->in_count = ob_net_pieces_skip(pieces, count, sizeof(request->header), rest);
	request->length = copy_body(share, rest, request->in_count,
				    is_in_place ? (*row)->size : length);
	request->body = share->body;
	if (request->length < (*row)->size || !has_names(request, *row))
		return -EINVAL;
	request->in_count = ob_net_pieces_skip(pieces, count,
					       sizeof(request->header) + request->length, rest);
	return 0;
}

static long carry_out(struct ob_fs_share *share, struct ob_fs_request *request,
		      const struct row *row)
{
	if (!row->function)
		return 0;
	if (!(row->flags & NO_NODE)) {
		request->node = ob_fs_node_find(share, request->header.nodeid);
		if (!request->node)
			return -ESTALE;
	}
	if (row->flags & CHANGES && share->is_read_only)
		return -EROFS;
	/* The directory of a single file is not shared. */
	if (row->flags & ATTRIBUTES && share->only && !request->node->parent)
		return -EPERM;
	return row->function(share, request);
}

/* Returns the length of the reply in the kernel's memory. */
static uint32_t reply(const struct ob_fs_share *share, const struct ob_fs_request *request,
		      const struct iovec *pieces, int count, long result)
{
	struct fuse_out_header header = { .unique = request->header.unique };
	struct iovec parts[2] = { { &header, sizeof(header) },
				  { (void *)(uintptr_t)share->reply, 0 } };

	if (result > 0 && (size_t)result > request->room)
		result = -EIO;
	header.error = result < 0 ? (int32_t)result : 0;
	header.len = (uint32_t)(sizeof(header) + (result > 0 ? (size_t)result : 0));
	parts[1].iov_len = request->is_placed ? 0 : header.len - sizeof(header);
	ob_net_pieces_copy(pieces, count, parts, 2);
	return header.len;
}

uint32_t ob_fs_serve(struct ob_fs_share *share, const struct iovec *pieces, int readable,
		     int count)
{
	static const struct row unknown = { .flags = 0 };
	struct iovec in[OB_VIRTQUEUE_PIECES], out[OB_VIRTQUEUE_PIECES];
	struct ob_fs_request request = { .out = out };
	size_t room = ob_net_pieces_length(pieces + readable, count - readable);
	const struct row *row = &unknown;
	long result;

	if (count > OB_VIRTQUEUE_PIECES || !copy_header(&request.header, pieces, readable))
		return 0;
	share->request++;
	result = read_request(share, &request, pieces, readable, in, &row);
	if (!row)
		row = &unknown;
	if (!(row->flags & SILENT)) {
		if (room < sizeof(struct fuse_out_header))
			return 0;
		request.room = room - sizeof(struct fuse_out_header);
		request.out_count = ob_net_pieces_skip(pieces + readable, count - readable,
						       sizeof(struct fuse_out_header), out);
	}
	if (!result)
		result = carry_out(share, &request, row);
	if (row->flags & SILENT)
		return 0;
	return reply(share, &request, pieces + readable, count - readable, result);
}
