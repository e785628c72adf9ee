// SPDX-License-Identifier: GPL-2.0-only
/* Opens and closes a directory that the kernel gets to see. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "handle.h"
#include "node.h"
#include "proc.h"

/* The process has descriptors for other things, and maybe other shares. */
#define SHARE_OF_LIMIT 4
#define LIMIT_LEAST 256u
#define LIMIT_MOST (1u << 20)
#define NODES_OPEN_MOST 4096u
#define HANDLES_MOST 65536u

static uint32_t descriptors_most(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur < LIMIT_LEAST)
		return LIMIT_LEAST;
	return limit.rlim_cur > LIMIT_MOST ? LIMIT_MOST : (uint32_t)limit.rlim_cur;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int fail(int error, char *text, size_t size, const char *path, const char *reason)
{
	snprintf(text, size, "%.256s: %s", path, reason);
	return error;
}

/* A file is shared by its directory, of which the kernel sees this one name. */
static int open_directory_of(struct ob_fs_share *share, int file)
{
	char place[4096];
	ssize_t length = readlink(ob_fs_path_of(file).text, place, sizeof(place) - 1);
	char *name;

	if (length <= 0)
		return -errno;
	place[length] = '\0';
	name = strrchr(place, '/');
	if (!name)
		return -ENOENT;
	share->only = strdup(name + 1);
	if (!share->only)
		return -ENOMEM;
	name[name == place] = '\0';
	return ob_fs_open_at(share, AT_FDCWD, place, O_PATH | O_DIRECTORY, 0);
}

/* Returns the descriptor of the root, and stores its state. */
static int open_root(struct ob_fs_share *share, const char *path, struct stat *status, char *error,
		     size_t size)
{
	int file = ob_fs_open_at(share, AT_FDCWD, path, O_PATH, 0), root = file;

	if (file < 0)
		return fail(file, error, size, path, strerror(-file));
	if (stat(ob_fs_path_of(file).text, status)) {
		ob_fs_close(share, file);
		return fail(-ENOSYS, error, size, path, "sharing it needs /proc; mount it");
	}
	if (S_ISREG(status->st_mode)) {
		root = open_directory_of(share, file);
		ob_fs_close(share, file);
		if (root >= 0 && !fstat(root, status))
			return root;
		return fail(root < 0 ? root : -EIO, error, size, path,
			    "its directory cannot be opened");
	}
	if (S_ISDIR(status->st_mode))
		return root;
	ob_fs_close(share, file);
	return fail(-ENOTDIR, error, size, path, "it is neither a directory nor a regular file");
}

static struct ob_fs_share *new_share(const struct ob_fs_settings *settings)
{
	struct ob_fs_share *share = calloc(1, sizeof(*share));
	uint32_t most = descriptors_most();

	if (!share)
		return NULL;
	share->open_words = (most + 63) / 64;
	share->open = calloc(share->open_words, sizeof(share->open[0]));
	share->handles.most = least(most / SHARE_OF_LIMIT, HANDLES_MOST);
	share->nodes.open_most = least(most / SHARE_OF_LIMIT, NODES_OPEN_MOST);
	share->is_read_only = settings->is_read_only;
	share->cache = settings->cache;
	share->user = geteuid();
	share->group = getegid();
	share->has_owners = !share->user && !settings->keeps_owners;
	if (share->open)
		return share;
	free(share);
	return NULL;
}

int ob_fs_share_open(const struct ob_fs_settings *settings, struct ob_fs_share **share,
		     char *error, size_t size)
{
	struct ob_fs_share *new = new_share(settings);
	struct stat status;
	int root, result;

	if (!new)
		return fail(-ENOMEM, error, size, settings->path, strerror(ENOMEM));
	root = open_root(new, settings->path, &status, error, size);
	result = root < 0 ? root : ob_fs_nodes_open(new, root, &status, new->nodes.open_most);
	if (!result) {
		*share = new;
		return 0;
	}
	if (root >= 0)
		fail(result, error, size, settings->path, strerror(-result));
	ob_fs_share_close(new);
	return result;
}

void ob_fs_share_close(struct ob_fs_share *share)
{
	ob_fs_handles_reset(share);
	ob_fs_nodes_free(share);
	/* What an opening that failed has left. */
	ob_fs_share_forked(share, true);
	free(share->handles.entries);
	free(share->only);
	free(share->open);
	free(share);
}

/* The memory of a share that was in the middle of a change stays. */
void ob_fs_share_forked(struct ob_fs_share *share, bool is_busy)
{
	if (!is_busy) {
		ob_fs_share_close(share);
		return;
	}
	for (uint32_t i = 0; i < share->open_words * 64; i++)
		if (share->open[i / 64] & 1ull << (i % 64))
			ob_fs_close(share, (int)i);
}
