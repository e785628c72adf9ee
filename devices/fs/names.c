// SPDX-License-Identifier: GPL-2.0-only
/* Operations on names: look up, create, link, rename, delete. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "handle.h"
#include "node.h"
#include "operations.h"
#include "owner.h"
#include "proc.h"

/* ---- looking up ---------------------------------------------------------------- */

static int fill_entry(struct ob_fs_share *share, struct ob_fs_node *node, const struct stat *host,
		      struct fuse_entry_out *entry)
{
	int fd = ob_fs_node_fd(share, node);

	if (fd < 0)
		return fd;
	*entry = (struct fuse_entry_out){
		.nodeid = node->id,
		.entry_valid = ob_fs_seconds(share),
		.attr_valid = ob_fs_seconds(share),
	};
	ob_fs_fill_attributes(share, fd, host, &entry->attr);
	node->lookups++;
	return 0;
}

int ob_fs_enter(struct ob_fs_share *share, struct ob_fs_node *directory, const char *name,
		struct fuse_entry_out *entry)
{
	struct ob_fs_node *node;
	struct stat host;
	int error = ob_fs_node_look_up(share, directory, name, &node, &host);

	if (error)
		return error;
	error = fill_entry(share, node, &host, entry);
	if (error)
		ob_fs_node_drop(share, node);
	return error;
}

long ob_fs_lookup(struct ob_fs_share *share, struct ob_fs_request *request)
{
	struct fuse_entry_out *entry = ob_fs_reply(share, struct fuse_entry_out);
	int error;

	if (!ob_fs_is_name(share, request->node, request->body))
		return -ENOENT;
	error = ob_fs_enter(share, request->node, request->body, entry);
	return error ? error : (long)sizeof(*entry);
}

long ob_fs_forget(struct ob_fs_share *share, struct ob_fs_request *request)
{
	ob_fs_node_forget(share, request->node,
			  ob_fs_body(request, struct fuse_forget_in)->nlookup);
	return 0;
}

long ob_fs_batch_forget(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_batch_forget_in *in = ob_fs_body(request, struct fuse_batch_forget_in);
	const struct fuse_forget_one *one = (const void *)(in + 1);
	size_t most = (request->length - sizeof(*in)) / sizeof(*one);

	for (size_t i = 0; i < in->count && i < most; i++) {
		struct ob_fs_node *node = ob_fs_node_find(share, one[i].nodeid);

		if (node)
			ob_fs_node_forget(share, node, one[i].nlookup);
	}
	return 0;
}

/* ---- creating ------------------------------------------------------------------ */

/* A new file, while it is being made. */
struct making {
	struct ob_fs_share *share;
	struct ob_fs_node *directory;
	const char *name;
	int above;			/* descriptor of the directory */
	mode_t type;
	struct ob_fs_owner owner;	/* that the new file is to have */
	mode_t first_mode;		/* that the host's file has at first */
};

/* As Linux chooses it: a directory with set-group-ID passes its group on. */
static struct ob_fs_owner choose_owner(const struct ob_fs_share *share,
				       const struct ob_fs_request *request, int above, mode_t type,
				       uint32_t mode)
{
	struct ob_fs_owner owner = { request->header.uid, request->header.gid, mode & 07777 };
	struct ob_fs_owner parent;
	struct stat host;

	if (fstat(above, &host))
		return owner;
	parent = ob_fs_owner_read(share, above, &host);
	if (!(parent.mode & S_ISGID))
		return owner;
	owner.gid = parent.gid;
	if (S_ISDIR(type))
		owner.mode |= S_ISGID;
	return owner;
}

static int begin(struct ob_fs_share *share, const struct ob_fs_request *request, const char *name,
		 mode_t type, uint32_t mode, struct making *making)
{
	*making = (struct making){
		.share = share, .directory = request->node, .name = name, .type = type,
		.above = ob_fs_node_fd(share, request->node),
	};
	if (making->above < 0)
		return making->above;
	if (!ob_fs_is_name(share, request->node, name))
		return *name && strchr(name, '/') ? -EINVAL : -EPERM;
	making->owner = choose_owner(share, request, making->above, type, mode);
	making->first_mode = ob_fs_owner_first_mode(share, type, making->owner.mode);
	return 0;
}

/* Links and FIFOs of an ordinary user cannot keep another owner: they belong to user 0. */
static bool keeps_owner(const struct making *making)
{
	return making->share->has_owners || S_ISREG(making->type) || S_ISDIR(making->type);
}

static int set_owner(const struct making *making, struct ob_fs_node *node, struct stat *host)
{
	struct ob_fs_owner owner = making->owner;
	int fd = ob_fs_node_fd(making->share, node), error;

	if (fd < 0)
		return fd;
	if (!keeps_owner(making))
		owner.uid = owner.gid = 0;
	if (S_ISLNK(making->type))
		owner.mode = 0777;
	error = ob_fs_owner_write(making->share, fd, host, &owner);
	return error ? error : ob_fs_result(fstat(fd, host));
}

/* The file exists: gives it its owner. A file that cannot have that owner goes again. */
static int finish(const struct making *making, struct fuse_entry_out *entry)
{
	struct ob_fs_node *node;
	struct stat host;
	int error = ob_fs_node_look_up(making->share, making->directory, making->name, &node,
				       &host);

	if (!error) {
		error = set_owner(making, node, &host);
		if (!error)
			error = fill_entry(making->share, node, &host, entry);
		if (error)
			ob_fs_node_drop(making->share, node);
	}
	if (error)
		unlinkat(making->above, making->name, S_ISDIR(making->type) ? AT_REMOVEDIR : 0);
	return error;
}

static long end(const struct making *making, int result)
{
	struct fuse_entry_out *entry = ob_fs_reply(making->share, struct fuse_entry_out);

	if (!result)
		result = finish(making, entry);
	return result ? result : (long)sizeof(*entry);
}

long ob_fs_symlink(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const char *name = request->body, *target = name + strlen(name) + 1;
	struct making making;
	int error = begin(share, request, name, S_IFLNK, 0777, &making);

	if (!error)
		error = ob_fs_result(symlinkat(target, making.above, name));
	else
		return error;
	return end(&making, error);
}

long ob_fs_mknod(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_mknod_in *in = ob_fs_body(request, struct fuse_mknod_in);
	const char *name = ob_fs_name(request, struct fuse_mknod_in);
	mode_t type = in->mode & S_IFMT ? in->mode & S_IFMT : S_IFREG;
	struct making making;
	int error;

	/* A device of the host is none of the kernel's, and must not appear on the host. */
	if ((S_ISCHR(type) || S_ISBLK(type)) && !share->has_owners)
		return -EPERM;
	error = begin(share, request, name, type, in->mode, &making);
	if (error)
		return error;
	error = ob_fs_result(mknodat(making.above, name, type | making.first_mode, in->rdev));
	return end(&making, error);
}

long ob_fs_mkdir(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_mkdir_in *in = ob_fs_body(request, struct fuse_mkdir_in);
	const char *name = ob_fs_name(request, struct fuse_mkdir_in);
	struct making making;
	int error = begin(share, request, name, S_IFDIR, in->mode, &making);

	if (error)
		return error;
	return end(&making, ob_fs_result(mkdirat(making.above, name, making.first_mode)));
}

long ob_fs_link(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_link_in *in = ob_fs_body(request, struct fuse_link_in);
	const char *name = ob_fs_name(request, struct fuse_link_in);
	struct fuse_entry_out *entry = ob_fs_reply(share, struct fuse_entry_out);
	struct ob_fs_node *node = ob_fs_node_find(share, in->oldnodeid);
	int above = ob_fs_node_fd(share, request->node), fd, error;

	if (!node)
		return -ESTALE;
	if (above < 0)
		return above;
	if (!ob_fs_is_name(share, request->node, name))
		return -EPERM;
	fd = ob_fs_node_fd(share, node);
	if (fd < 0)
		return fd;
	error = ob_fs_result(linkat(AT_FDCWD, ob_fs_path_of(fd).text, above, name,
				    AT_SYMLINK_FOLLOW));
	if (!error)
		error = ob_fs_enter(share, request->node, name, entry);
	return error ? error : (long)sizeof(*entry);
}

/* ---- creating and opening -------------------------------------------------------- */

struct created {
	struct fuse_entry_out entry;
	struct fuse_open_out open;
};

static int add_handle(struct ob_fs_share *share, int fd, uint32_t flags, struct created *created)
{
	struct ob_fs_node *node = ob_fs_node_find(share, created->entry.nodeid);
	int error = ob_fs_handle_add(share, node, fd, NULL, &created->open.fh);

	created->open.open_flags = ob_fs_open_flags(share, flags);
	/* The kernel does not get the number: it never forgets the node. */
	if (error)
		ob_fs_node_forget(share, node, 1);
	return error;
}

/* Another process of the host has made the file first. */
static int open_existing(const struct making *making, uint32_t flags, struct created *created)
{
	struct ob_fs_share *share = making->share;
	struct ob_fs_node *node;
	int error = ob_fs_enter(share, making->directory, making->name, &created->entry), fd;

	if (error)
		return error;
	node = ob_fs_node_find(share, created->entry.nodeid);
	fd = ob_fs_open_node(share, node, flags);
	if (fd >= 0)
		return add_handle(share, fd, flags, created);
	ob_fs_node_forget(share, node, 1);
	return fd;
}

static int create(const struct making *making, uint32_t flags, struct created *created)
{
	struct ob_fs_share *share = making->share;
	int fd = ob_fs_open_at(share, making->above, making->name,
			       (int)ob_fs_host_flags(flags) | O_CREAT | O_EXCL | O_NOFOLLOW,
			       making->first_mode);
	int error;

	if (fd == -EEXIST && !(flags & O_EXCL))
		return open_existing(making, flags, created);
	if (fd < 0)
		return fd;
	error = finish(making, &created->entry);
	if (!error)
		return add_handle(share, fd, flags, created);
	ob_fs_close(share, fd);
	return error;
}

long ob_fs_create(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_create_in *in = ob_fs_body(request, struct fuse_create_in);
	const char *name = ob_fs_name(request, struct fuse_create_in);
	struct created *created = ob_fs_reply(share, struct created);
	struct making making;
	int error = begin(share, request, name, S_IFREG, in->mode, &making);

	if (!error)
		error = create(&making, in->flags, created);
	return error ? error : (long)sizeof(*created);
}

/* ---- renaming and deleting --------------------------------------------------------- */

static void unpin(struct ob_fs_node *node)
{
	if (node)
		node->is_pinned = false;
}

static long delete(struct ob_fs_share *share, struct ob_fs_request *request, int flags)
{
	int above = ob_fs_node_fd(share, request->node), error;
	struct ob_fs_node *node;

	if (above < 0)
		return above;
	if (!ob_fs_is_name(share, request->node, request->body) || share->only)
		return -EPERM;
	node = ob_fs_node_pin(share, request->node, request->body);
	error = ob_fs_result(unlinkat(above, request->body, flags));
	if (error)
		unpin(node);
	return error;
}

long ob_fs_unlink(struct ob_fs_share *share, struct ob_fs_request *request)
{
	return delete(share, request, 0);
}

long ob_fs_rmdir(struct ob_fs_share *share, struct ob_fs_request *request)
{
	return delete(share, request, AT_REMOVEDIR);
}

static long move(struct ob_fs_share *share, struct ob_fs_request *request, uint64_t to,
		 const char *name, unsigned int flags)
{
	struct ob_fs_node *directory = ob_fs_node_find(share, to), *moved, *met;
	const char *new_name = name + strlen(name) + 1;
	int above = ob_fs_node_fd(share, request->node), below, error;

	if (!directory)
		return -ESTALE;
	if (above < 0)
		return above;
	below = ob_fs_node_fd(share, directory);
	if (below < 0)
		return below;
	if (!ob_fs_is_name(share, request->node, name) ||
	    !ob_fs_is_name(share, directory, new_name) || share->only)
		return -EPERM;
	moved = ob_fs_node_pin(share, request->node, name);
	met = ob_fs_node_pin(share, directory, new_name);
	error = ob_fs_result(renameat2(above, name, below, new_name, flags));
	if (error) {
		unpin(moved);
		unpin(met);
		return error;
	}
	/* Two names of one file: neither goes. */
	if (moved == met)
		unpin(moved);
	else if (moved)
		ob_fs_node_rename(share, moved, directory, new_name);
	if (met && flags & RENAME_EXCHANGE)
		ob_fs_node_rename(share, met, request->node, name);
	return 0;
}

long ob_fs_rename(struct ob_fs_share *share, struct ob_fs_request *request)
{
	return move(share, request, ob_fs_body(request, struct fuse_rename_in)->newdir,
		    ob_fs_name(request, struct fuse_rename_in), 0);
}

long ob_fs_rename2(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_rename2_in *in = ob_fs_body(request, struct fuse_rename2_in);

	/* A whiteout is a device. */
	if (in->flags & ~(uint32_t)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	return move(share, request, in->newdir, ob_fs_name(request, struct fuse_rename2_in),
		    in->flags);
}
