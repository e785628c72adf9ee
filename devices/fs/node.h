/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files that the kernel has looked up, by number. Numbers are never used again.
 *
 * A node has a descriptor by O_PATH, or can open it again: by the node of its directory and its
 * name, where the same file must still be. So thousands of nodes need few descriptors. A file whose
 * name was deleted keeps its descriptor.
 */
#ifndef OUTBOARD_DEVICES_FS_NODE_H
#define OUTBOARD_DEVICES_FS_NODE_H

#include "share.h"

/* `fd`: of the root, which the table then owns. 0 or -ENOMEM. */
int ob_fs_nodes_open(struct ob_fs_share *share, int fd, const struct stat *status,
		     uint32_t open_most);
/* Forgets all nodes but the root. */
void ob_fs_nodes_reset(struct ob_fs_share *share);
void ob_fs_nodes_free(struct ob_fs_share *share);

/* NULL: there is none. */
struct ob_fs_node *ob_fs_node_find(const struct ob_fs_share *share, uint64_t id);

/* Whether a name from the kernel can be a file of this directory, and leads to no other place. */
bool ob_fs_is_name(const struct ob_fs_share *share, const struct ob_fs_node *directory,
		   const char *name);

/* The node's descriptor, which stays open during this request. -ESTALE: the file is gone. */
int ob_fs_node_fd(struct ob_fs_share *share, struct ob_fs_node *node);

/*
 * Looks a name up in a directory, and stores the node and its state. The caller counts the lookup,
 * or drops the node. -errno.
 */
int ob_fs_node_look_up(struct ob_fs_share *share, struct ob_fs_node *directory, const char *name,
		       struct ob_fs_node **node, struct stat *status);

/* Frees the node if nothing needs it. */
void ob_fs_node_drop(struct ob_fs_share *share, struct ob_fs_node *node);
void ob_fs_node_forget(struct ob_fs_share *share, struct ob_fs_node *node, uint64_t lookups);

/*
 * A name is about to lead to no file, or to another one. The node of that name, if there is one,
 * gets a descriptor that stays. NULL: there is no node, or it does not depend on this name.
 */
struct ob_fs_node *ob_fs_node_pin(struct ob_fs_share *share, struct ob_fs_node *directory,
				  const char *name);
/* The file has this name now. */
void ob_fs_node_rename(struct ob_fs_share *share, struct ob_fs_node *node,
		       struct ob_fs_node *directory, const char *name);

/* Closes descriptors that can be opened again. True: there were some. */
bool ob_fs_nodes_shrink(struct ob_fs_share *share);

/* Opens a file by a name below a directory, or by "/proc/self/fd/N". -errno. */
int ob_fs_open_at(struct ob_fs_share *share, int directory, const char *name, int flags,
		  mode_t mode);

#endif
