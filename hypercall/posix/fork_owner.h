/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Owners of descriptors that a fork()ed child must not keep: a copy keeps a lock, a port or a
 * connection after its owner has ended.
 *
 * An owner is in the list from before its first descriptor is open until the last one is closed. So
 * a child that is forked while another thread opens the owner keeps no copy either. The host copies
 * the descriptors first, then the memory: so nothing is closed during a fork.
 */
#ifndef OUTBOARD_POSIX_FORK_OWNER_H
#define OUTBOARD_POSIX_FORK_OWNER_H

struct ob_fork_owner {
	struct ob_fork_owner *next;
	/* In the child: closes the descriptors that are open, and stores -1 for them. */
	void (*close)(struct ob_fork_owner *owner);
};

/* All descriptors of the owner are -1. */
void ob_fork_owner_add(struct ob_fork_owner *owner, void (*close)(struct ob_fork_owner *owner));
void ob_fork_owner_remove(struct ob_fork_owner *owner);

/*
 * Has each child of a fork call a function, which calls ob_fork_owners_close(). From now on a fork
 * waits for closings under way, and holds others back. Returns 0, or an errno value.
 */
int ob_fork_owners_hook(void (*child)(void));

/* In the child: closes all descriptors, and drops the owners. */
void ob_fork_owners_close(void);

/* Closes a descriptor, unless it is -1. A child that is forked meanwhile finds -1. */
void ob_fork_owner_drop(int *fd);

#endif
