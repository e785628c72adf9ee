/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Owners and modes of files, as the kernel sees them.
 *
 * If the process is root, they are those of the host. Else user 0 of the kernel is the user of the
 * process, and the host's file belongs to that user whatever its owner in the kernel is. Another
 * owner, and a mode that the host's file cannot have, are kept in the attribute
 * "user.containers.override_stat", in the format of containers/storage and fuse-overlayfs:
 *
 *	UID:GID:MODE:TYPE	1000:1000:0644:file
 *
 * The host's file never has set-user-ID or set-group-ID bits from the kernel. Its owner can always
 * read and write it, so that user 0 of the kernel can.
 */
#ifndef OUTBOARD_DEVICES_FS_OWNER_H
#define OUTBOARD_DEVICES_FS_OWNER_H

#include "share.h"

/* The owner of a host's file that belongs to somebody else: as in a user namespace. */
#define OB_FS_NOBODY 65534u

struct ob_fs_owner {
	uint32_t uid, gid;
	uint32_t mode;			/* the lowest 12 bits */
};

/* `fd` may be an O_PATH one. `host`: its state. */
struct ob_fs_owner ob_fs_owner_read(const struct ob_fs_share *share, int fd,
				    const struct stat *host);

/*
 * Changes what differs. -EPERM: the host's file belongs to another user, or can have no such
 * attribute.
 */
int ob_fs_owner_write(const struct ob_fs_share *share, int fd, const struct stat *host,
		      const struct ob_fs_owner *wanted);

/* After a write: drops set-user-ID and set-group-ID, as Linux does. */
int ob_fs_owner_drop_privileges(const struct ob_fs_share *share, int fd);

/* The mode without those bits, if they give privileges. */
uint32_t ob_fs_owner_plain_mode(uint32_t mode);

/* The mode that a new file of the host gets at first. */
mode_t ob_fs_owner_first_mode(const struct ob_fs_share *share, mode_t type, uint32_t mode);

/* Whether the kernel must not see or change an attribute of this name: it keeps owners. */
bool ob_fs_owner_is_attribute(const struct ob_fs_share *share, const char *name);

#endif
