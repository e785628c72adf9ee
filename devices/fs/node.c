// SPDX-License-Identifier: GPL-2.0-only
/* Files that the kernel has looked up: node.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"
#include "proc.h"

#define SLOTS_LEAST 256u

/* ---- the tables ------------------------------------------------------------ */

static struct ob_fs_node **slot_of_id(const struct ob_fs_nodes *nodes, uint64_t id)
{
	return &nodes->by_id[id & (nodes->slots - 1)];
}

static struct ob_fs_node **slot_of_inode(const struct ob_fs_nodes *nodes, dev_t device,
					 ino_t inode)
{
	uint64_t hash = (inode ^ (uint64_t)device << 32) * 0x9e3779b97f4a7c15ull;

	return &nodes->by_inode[(hash >> 32) & (nodes->slots - 1)];
}

struct ob_fs_node *ob_fs_node_find(const struct ob_fs_share *share, uint64_t id)
{
	struct ob_fs_node *node = *slot_of_id(&share->nodes, id);

	while (node && node->id != id)
		node = node->next_of_id;
	return node;
}

static struct ob_fs_node *find_file(const struct ob_fs_nodes *nodes, const struct stat *status)
{
	struct ob_fs_node *node = *slot_of_inode(nodes, status->st_dev, status->st_ino);

	while (node && (node->inode != status->st_ino || node->device != status->st_dev ||
			node->type != (status->st_mode & S_IFMT)))
		node = node->next_of_inode;
	return node;
}

static void insert(struct ob_fs_nodes *nodes, struct ob_fs_node *node)
{
	struct ob_fs_node **of_id = slot_of_id(nodes, node->id);
	struct ob_fs_node **of_inode = slot_of_inode(nodes, node->device, node->inode);

	node->next_of_id = *of_id;
	*of_id = node;
	node->next_of_inode = *of_inode;
	*of_inode = node;
}

static void take_out(struct ob_fs_nodes *nodes, const struct ob_fs_node *node)
{
	struct ob_fs_node **place = slot_of_id(nodes, node->id);

	while (*place != node)
		place = &(*place)->next_of_id;
	*place = node->next_of_id;
	place = slot_of_inode(nodes, node->device, node->inode);
	while (*place != node)
		place = &(*place)->next_of_inode;
	*place = node->next_of_inode;
}

static int make_slots(struct ob_fs_nodes *nodes, uint32_t slots)
{
	nodes->by_id = calloc(slots, sizeof(nodes->by_id[0]));
	nodes->by_inode = calloc(slots, sizeof(nodes->by_inode[0]));
	nodes->slots = slots;
	return nodes->by_id && nodes->by_inode ? 0 : -ENOMEM;
}

/* Without memory the lists only become longer. */
static void grow(struct ob_fs_nodes *nodes)
{
	struct ob_fs_nodes old = *nodes;

	if (nodes->count < nodes->slots)
		return;
	if (make_slots(nodes, old.slots * 2)) {
		free(nodes->by_id);
		free(nodes->by_inode);
		*nodes = old;
		return;
	}
	for (uint32_t i = 0; i < old.slots; i++) {
		struct ob_fs_node *node = old.by_id[i], *next;

		for (; node; node = next) {
			next = node->next_of_id;
			insert(nodes, node);
		}
	}
	free(old.by_id);
	free(old.by_inode);
}

bool ob_fs_is_name(const struct ob_fs_share *share, const struct ob_fs_node *directory,
		   const char *name)
{
	if (!*name || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	return directory->parent || !share->only || !strcmp(name, share->only);
}

/* ---- descriptors ------------------------------------------------------------ */

static void list_remove(struct ob_fs_nodes *nodes, struct ob_fs_node *node)
{
	*(node->newer ? &node->newer->older : &nodes->newest) = node->older;
	*(node->older ? &node->older->newer : &nodes->oldest) = node->newer;
	nodes->open--;
}

static void list_add(struct ob_fs_nodes *nodes, struct ob_fs_node *node)
{
	node->newer = NULL;
	node->older = nodes->newest;
	*(nodes->newest ? &nodes->newest->newer : &nodes->oldest) = node;
	nodes->newest = node;
	nodes->open++;
}

static void close_fd(struct ob_fs_share *share, struct ob_fs_node *node)
{
	if (node->fd < 0)
		return;
	list_remove(&share->nodes, node);
	ob_fs_close(share, node->fd);
	node->fd = -1;
}

static bool may_close(const struct ob_fs_share *share, const struct ob_fs_node *node)
{
	return node->parent && !node->is_pinned && node->request != share->request;
}

/* Closes descriptors, the oldest first, until no more than `most` are open. */
static bool close_oldest(struct ob_fs_share *share, uint32_t most)
{
	struct ob_fs_node *node = share->nodes.oldest, *next;
	bool found = false;

	for (; node && share->nodes.open > most; node = next) {
		next = node->newer;
		if (!may_close(share, node))
			continue;
		close_fd(share, node);
		found = true;
	}
	return found;
}

bool ob_fs_nodes_shrink(struct ob_fs_share *share)
{
	return close_oldest(share, 0);
}

int ob_fs_open_at(struct ob_fs_share *share, int directory, const char *name, int flags,
		  mode_t mode)
{
	int fd;

	do
		fd = raw_openat(directory, name, flags | O_CLOEXEC, mode);
	while (fd < 0 && (errno == EINTR ||
			  ((errno == EMFILE || errno == ENFILE) && ob_fs_nodes_shrink(share))));
	return ob_fs_note(share, fd);
}

static void use(struct ob_fs_share *share, struct ob_fs_node *node)
{
	node->request = share->request;
	if (share->nodes.newest == node)
		return;
	list_remove(&share->nodes, node);
	list_add(&share->nodes, node);
}

static void adopt(struct ob_fs_share *share, struct ob_fs_node *node, int fd)
{
	node->fd = fd;
	node->request = share->request;
	list_add(&share->nodes, node);
	/* A part of them, so that this is not done for each lookup. */
	if (share->nodes.open > share->nodes.open_most)
		close_oldest(share, share->nodes.open_most - share->nodes.open_most / 4);
}

/*
 * One name below a directory. A symbolic link is opened itself, so one name without a slash never
 * leads out of the directory.
 */
static int open_name(struct ob_fs_share *share, int directory, const char *name,
		     struct stat *status)
{
	int fd = ob_fs_open_at(share, directory, name, O_PATH | O_NOFOLLOW, 0), error;

	if (fd < 0)
		return fd;
	error = ob_fs_result(fstat(fd, status));
	if (!error)
		return fd;
	ob_fs_close(share, fd);
	return error;
}

static bool is_file(const struct ob_fs_node *node, const struct stat *status)
{
	return node->device == status->st_dev && node->inode == status->st_ino &&
	       node->type == (status->st_mode & S_IFMT);
}

/* The directory of `node` has a descriptor. */
static int open_again(struct ob_fs_share *share, struct ob_fs_node *node)
{
	struct stat status;
	int fd = open_name(share, node->parent->fd, node->name, &status);

	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR ? -ESTALE : fd;
	if (!is_file(node, &status)) {
		ob_fs_close(share, fd);
		return -ESTALE;
	}
	adopt(share, node, fd);
	return 0;
}

/*
 * The highest directory of the node's path that has no descriptor. NULL: renames on the host have
 * made the path endless.
 */
static struct ob_fs_node *first_closed(struct ob_fs_node *node)
{
	for (int depth = 0; depth < 2 * OB_FS_DEPTH_MOST; depth++) {
		if (node->parent->fd >= 0)
			return node;
		node = node->parent;
	}
	return NULL;
}

int ob_fs_node_fd(struct ob_fs_share *share, struct ob_fs_node *node)
{
	while (node->fd < 0) {
		struct ob_fs_node *first = first_closed(node);
		int error;

		if (!first)
			return -ESTALE;
		use(share, first->parent);
		error = open_again(share, first);
		if (error)
			return error;
	}
	use(share, node);
	return node->fd;
}

/* ---- nodes ------------------------------------------------------------------- */

static bool is_needed(const struct ob_fs_node *node)
{
	return node->lookups || node->uses || !node->parent;
}

static void free_node(struct ob_fs_share *share, struct ob_fs_node *node)
{
	close_fd(share, node);
	free(node->name);
	free(node);
}

void ob_fs_node_drop(struct ob_fs_share *share, struct ob_fs_node *node)
{
	while (node && !is_needed(node)) {
		struct ob_fs_node *parent = node->parent;

		take_out(&share->nodes, node);
		share->nodes.count--;
		free_node(share, node);
		parent->uses--;
		node = parent;
	}
}

void ob_fs_node_forget(struct ob_fs_share *share, struct ob_fs_node *node, uint64_t lookups)
{
	node->lookups -= lookups < node->lookups ? lookups : node->lookups;
	ob_fs_node_drop(share, node);
}

/* Without memory for the name the node keeps its old one. */
void ob_fs_node_rename(struct ob_fs_share *share, struct ob_fs_node *node,
		       struct ob_fs_node *directory, const char *name)
{
	struct ob_fs_node *before = node->parent;
	char *copy = before ? strdup(name) : NULL;

	if (!copy)
		return;
	node->is_pinned = false;
	free(node->name);
	node->name = copy;
	node->parent = directory;
	directory->uses++;
	before->uses--;
	ob_fs_node_drop(share, before);
}

static bool is_too_deep(const struct ob_fs_node *directory)
{
	for (int depth = 0; depth < OB_FS_DEPTH_MOST; depth++) {
		if (!directory->parent)
			return false;
		directory = directory->parent;
	}
	return true;
}

static struct ob_fs_node *new_node(struct ob_fs_nodes *nodes, const struct stat *status,
				   const char *name)
{
	struct ob_fs_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->name = strdup(name);
	if (!node->name) {
		free(node);
		return NULL;
	}
	node->fd = -1;
	node->id = ++nodes->last_id;
	node->device = status->st_dev;
	node->inode = status->st_ino;
	node->type = status->st_mode & S_IFMT;
	nodes->count++;
	grow(nodes);
	insert(nodes, node);
	return node;
}

static int add(struct ob_fs_share *share, struct ob_fs_node *directory, const char *name,
	       const struct stat *status, struct ob_fs_node **node)
{
	if (is_too_deep(directory))
		return -ENAMETOOLONG;
	if (share->nodes.count >= OB_FS_NODES_MOST)
		return -ENFILE;
	*node = new_node(&share->nodes, status, name);
	if (!*node)
		return -ENOMEM;
	(*node)->parent = directory;
	directory->uses++;
	return 0;
}

static bool has_name(const struct ob_fs_node *node, const struct ob_fs_node *directory,
		     const char *name)
{
	return node->parent == directory && !strcmp(node->name, name);
}

/* The descriptor belongs to the node after this, or is closed. */
static int know(struct ob_fs_share *share, struct ob_fs_node *directory, const char *name, int fd,
		const struct stat *status, struct ob_fs_node **node)
{
	int error = 0;

	*node = find_file(&share->nodes, status);
	if (!*node)
		error = add(share, directory, name, status, node);
	else if ((*node)->is_pinned || !has_name(*node, directory, name))
		ob_fs_node_rename(share, *node, directory, name);
	if (!error && (*node)->fd < 0)
		adopt(share, *node, fd);
	else
		ob_fs_close(share, fd);
	return error;
}

int ob_fs_node_look_up(struct ob_fs_share *share, struct ob_fs_node *directory, const char *name,
		       struct ob_fs_node **node, struct stat *status)
{
	int above = ob_fs_node_fd(share, directory), fd;

	if (above < 0)
		return above;
	fd = open_name(share, above, name, status);
	if (fd < 0)
		return fd;
	return know(share, directory, name, fd, status, node);
}

struct ob_fs_node *ob_fs_node_pin(struct ob_fs_share *share, struct ob_fs_node *directory,
				  const char *name)
{
	int above = ob_fs_node_fd(share, directory);
	struct ob_fs_node *node;
	struct stat status;

	if (above < 0 || fstatat(above, name, &status, AT_SYMLINK_NOFOLLOW))
		return NULL;
	node = find_file(&share->nodes, &status);
	if (!node || !has_name(node, directory, name) || ob_fs_node_fd(share, node) < 0)
		return NULL;
	node->is_pinned = true;
	return node;
}

/* ---- all of them --------------------------------------------------------------- */

int ob_fs_nodes_open(struct ob_fs_share *share, int fd, const struct stat *status,
		     uint32_t open_most)
{
	struct ob_fs_nodes *nodes = &share->nodes;

	nodes->open_most = open_most;
	nodes->last_id = FUSE_ROOT_ID - 1;
	if (make_slots(nodes, SLOTS_LEAST))
		return -ENOMEM;
	nodes->root = new_node(nodes, status, "");
	if (!nodes->root)
		return -ENOMEM;
	nodes->root->fd = fd;
	list_add(nodes, nodes->root);
	return 0;
}

static void free_all(struct ob_fs_share *share, const struct ob_fs_node *but)
{
	struct ob_fs_nodes *nodes = &share->nodes;

	for (uint32_t i = 0; i < nodes->slots; i++) {
		struct ob_fs_node *node = nodes->by_id ? nodes->by_id[i] : NULL, *next;

		for (; node; node = next) {
			next = node->next_of_id;
			if (node != but)
				free_node(share, node);
		}
	}
}

void ob_fs_nodes_reset(struct ob_fs_share *share)
{
	struct ob_fs_nodes *nodes = &share->nodes;

	free_all(share, nodes->root);
	memset(nodes->by_id, 0, nodes->slots * sizeof(nodes->by_id[0]));
	memset(nodes->by_inode, 0, nodes->slots * sizeof(nodes->by_inode[0]));
	nodes->count = 1;
	nodes->root->uses = 0;
	insert(nodes, nodes->root);
}

void ob_fs_nodes_free(struct ob_fs_share *share)
{
	free_all(share, NULL);
	free(share->nodes.by_id);
	free(share->nodes.by_inode);
}
