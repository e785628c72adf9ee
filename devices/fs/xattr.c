// SPDX-License-Identifier: GPL-2.0-only
/*
 * Extended attributes: those of users, and for root those of "trusted" and capabilities of files.
 * Access lists ("system") would give other users of the host rights: they are refused. So are
 * labels of the host's security modules ("security"), whose policies do not hold in the kernel.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "node.h"
#include "operations.h"
#include "owner.h"
#include "proc.h"

static bool begins(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix));
}

static bool is_visible(const struct ob_fs_share *share, const char *name)
{
	if (begins(name, "user."))
		return !ob_fs_owner_is_attribute(share, name);
	return share->has_owners &&
	       (begins(name, "trusted.") || !strcmp(name, "security.capability"));
}

static int refusal(const struct ob_fs_share *share, const char *name)
{
	return ob_fs_owner_is_attribute(share, name) ? -EPERM : -EOPNOTSUPP;
}

long ob_fs_setxattr(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_setxattr_in *in = ob_fs_body(request, struct fuse_setxattr_in);
	const char *name = request->body + FUSE_COMPAT_SETXATTR_IN_SIZE;
	const char *value = name + strlen(name) + 1;
	int fd = ob_fs_node_fd(share, request->node);

	if (fd < 0)
		return fd;
	if (in->size > request->length - (size_t)(value - request->body))
		return -EINVAL;
	if (!is_visible(share, name))
		return refusal(share, name);
	return ob_fs_result(setxattr(ob_fs_path_of(fd).text, name, value, in->size,
				     (int)in->flags));
}

/* Without room the kernel asks for the size alone. */
static long reply(struct ob_fs_share *share, const struct fuse_getxattr_in *in, ssize_t length)
{
	struct fuse_getxattr_out *out;

	if (length < 0)
		return -errno;
	if (in->size)
		return (size_t)length > in->size ? -ERANGE : length;
	out = ob_fs_reply(share, struct fuse_getxattr_out);
	out->size = (uint32_t)length;
	return sizeof(*out);
}

long ob_fs_getxattr(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_getxattr_in *in = ob_fs_body(request, struct fuse_getxattr_in);
	const char *name = ob_fs_name(request, struct fuse_getxattr_in);
	int fd = ob_fs_node_fd(share, request->node);

	if (fd < 0)
		return fd;
	if (!is_visible(share, name))
		return ob_fs_owner_is_attribute(share, name) ? -ENODATA : -EOPNOTSUPP;
	return reply(share, in, getxattr(ob_fs_path_of(fd).text, name, share->reply,
					 OB_FS_REPLY_MOST));
}

/* Leaves out names that the kernel must not see. Returns the length of the others. */
static ssize_t filter(struct ob_fs_share *share, ssize_t length)
{
	char *from = share->reply, *to = share->reply, *end = share->reply + length;

	while (from < end) {
		size_t size = strlen(from) + 1;

		if (is_visible(share, from)) {
			memmove(to, from, size);
			to += size;
		}
		from += size;
	}
	return to - share->reply;
}

long ob_fs_listxattr(struct ob_fs_share *share, struct ob_fs_request *request)
{
	const struct fuse_getxattr_in *in = ob_fs_body(request, struct fuse_getxattr_in);
	int fd = ob_fs_node_fd(share, request->node);
	ssize_t length;

	if (fd < 0)
		return fd;
	length = listxattr(ob_fs_path_of(fd).text, share->reply, OB_FS_REPLY_MOST);
	return reply(share, in, length > 0 ? filter(share, length) : length);
}

long ob_fs_removexattr(struct ob_fs_share *share, struct ob_fs_request *request)
{
	int fd = ob_fs_node_fd(share, request->node);

	if (fd < 0)
		return fd;
	if (!is_visible(share, request->body))
		return refusal(share, request->body);
	return ob_fs_result(removexattr(ob_fs_path_of(fd).text, request->body));
}
