// SPDX-License-Identifier: GPL-2.0-only
/* Operations on open directories. The place of an entry is the host's. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "handle.h"
#include "node.h"
#include "operations.h"
#include "proc.h"

/* An entry as the host returns it. */
struct host_entry {
	uint64_t inode;
	int64_t next;			/* the place of the entry that follows */
	uint16_t length;
	uint8_t type;
	char name[];
};

struct ob_fs_listing {
	int64_t place;			/* of the entry at `at` */
	size_t at, end;
	_Alignas(8) char bytes[16384];
};

long ob_fs_opendir(struct ob_fs_share *share, struct ob_fs_request *request)
{
	struct fuse_open_out *out = ob_fs_reply(share, struct fuse_open_out);
	int above = ob_fs_node_fd(share, request->node), fd, error;
	struct ob_fs_listing *listing;

	if (above < 0)
		return above;
	if (!S_ISDIR(request->node->type))
		return -ENOTDIR;
	fd = ob_fs_open_at(share, above, ".", O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fd;
	listing = malloc(sizeof(*listing));
	if (!listing) {
		ob_fs_close(share, fd);
		return -ENOMEM;
	}
	listing->place = 0;
	listing->at = listing->end = 0;
	error = ob_fs_handle_add(share, request->node, fd, listing, &out->fh);
	if (share->cache == OB_FS_CACHE_ALWAYS)
		out->open_flags = FOPEN_KEEP_CACHE | FOPEN_CACHE_DIR;
	return error ? error : (long)sizeof(*out);
}

/* Goes to the place of an entry. 0 or -errno. */
static int go_to(const struct ob_fs_handle *handle, int64_t place)
{
	struct ob_fs_listing *listing = handle->listing;

	if (listing->place == place && place)
		return 0;
	listing->at = listing->end = 0;
	listing->place = place;
	return lseek(handle->fd, place, SEEK_SET) < 0 ? -errno : 0;
}

/* Stores the entry at the place; NULL: the end of the directory. 0 or -errno. */
static int get(const struct ob_fs_handle *handle, const struct host_entry **entry)
{
	struct ob_fs_listing *listing = handle->listing;

	if (listing->at == listing->end) {
		long got = syscall(SYS_getdents64, handle->fd, listing->bytes,
				   sizeof(listing->bytes));

		if (got < 0)
			return -errno;
		listing->at = 0;
		listing->end = (size_t)got;
	}
	*entry = listing->at < listing->end ? (const void *)(listing->bytes + listing->at) : NULL;
	return 0;
}

static void advance(const struct ob_fs_handle *handle, const struct host_entry *entry)
{
	handle->listing->at += entry->length;
	handle->listing->place = entry->next;
}

static bool is_self_or_parent(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* The kernel gets to know no file above the root. */
static uint64_t number_of(const struct ob_fs_share *share, const struct ob_fs_node *directory,
			  const struct host_entry *entry)
{
	ino_t inode = entry->inode;

	if (!directory->parent && !strcmp(entry->name, ".."))
		inode = directory->inode;
	return ob_fs_inode_number(share, directory->device, inode);
}

/* Writes one entry to `to`, which has room. Returns its length; 0: the entry is left out. */
static size_t put(struct ob_fs_share *share, struct ob_fs_node *directory,
		  const struct host_entry *entry, char *to, bool is_plus)
{
	size_t name_length = strlen(entry->name);
	struct fuse_entry_out known = { .nodeid = 0 };
	struct fuse_dirent head = {
		.ino = number_of(share, directory, entry),
		.off = (uint64_t)entry->next,
		.namelen = (uint32_t)name_length,
		.type = entry->type,
	};
	size_t before = is_plus ? sizeof(known) : 0, length;
	bool is_special = is_self_or_parent(entry->name);

	if (!is_special && !ob_fs_is_name(share, directory, entry->name))
		return 0;
	if (is_plus && !is_special && ob_fs_enter(share, directory, entry->name, &known) == -ENOENT)
		return 0;
	if (known.nodeid)
		head.ino = known.attr.ino;
	length = FUSE_DIRENT_ALIGN(before + FUSE_NAME_OFFSET + name_length);
	memset(to, 0, length);
	memcpy(to, &known, before);
	memcpy(to + before, &head, FUSE_NAME_OFFSET);
	memcpy(to + before + FUSE_NAME_OFFSET, entry->name, name_length);
	return length;
}

static size_t room_of(const struct host_entry *entry, bool is_plus)
{
	return FUSE_DIRENT_ALIGN((is_plus ? sizeof(struct fuse_entry_out) : 0) + FUSE_NAME_OFFSET +
				 strlen(entry->name));
}

static long list(struct ob_fs_share *share, const struct ob_fs_request *request, bool is_plus)
{
	const struct fuse_read_in *in = ob_fs_body(request, struct fuse_read_in);
	const struct ob_fs_handle *handle = ob_fs_handle_directory(share, in->fh);
	const struct host_entry *entry = NULL;
	size_t room = request->room, length = 0;
	int error;

	if (!handle)
		return -EBADF;
	if (room > in->size)
		room = in->size;
	if (room > OB_FS_REPLY_MOST)
		room = OB_FS_REPLY_MOST;
	error = go_to(handle, (int64_t)in->offset);
	while (!error) {
		error = get(handle, &entry);
		if (error || !entry || room - length < room_of(entry, is_plus))
			break;
		length += put(share, handle->node, entry, share->reply + length, is_plus);
		advance(handle, entry);
	}
	return error && !length ? error : (long)length;
}

long ob_fs_readdir(struct ob_fs_share *share, struct ob_fs_request *request)
{
	return list(share, request, false);
}

long ob_fs_readdirplus(struct ob_fs_share *share, struct ob_fs_request *request)
{
	return list(share, request, true);
}

long ob_fs_releasedir(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_release_in *in = ob_fs_body(request, struct fuse_release_in);
	struct ob_fs_handle *handle = ob_fs_handle_directory(share, in->fh);

	if (!handle)
		return -EBADF;
	ob_fs_handle_close(share, handle);
	return 0;
}

long ob_fs_fsyncdir(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_fsync_in *in = ob_fs_body(request, struct fuse_fsync_in);
	const struct ob_fs_handle *handle = ob_fs_handle_directory(share, in->fh);

	return handle ? ob_fs_result(raw_fsync(handle->fd)) : -EBADF;
}
