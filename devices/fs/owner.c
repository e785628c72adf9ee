// SPDX-License-Identifier: GPL-2.0-only
/* Owners and modes: owner.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "owner.h"
#include "proc.h"

#define ATTRIBUTE "user.containers.override_stat"

#define MODE_BITS 07777u
#define PRIVILEGE_BITS (S_ISUID | S_ISGID)
/* A host's file gets these from the kernel. */
#define HOST_BITS 01777u

bool ob_fs_owner_is_attribute(const struct ob_fs_share *share, const char *name)
{
	return !share->has_owners && !strcmp(name, ATTRIBUTE);
}

/* Linux allows attributes of users for these only. */
static bool has_attributes(mode_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode);
}

/* ---- reading ----------------------------------------------------------------- */

/* The type that may follow is that of the host's file. False: the text is wrong. */
static bool parse(const char *text, struct ob_fs_owner *owner)
{
	static const int bases[] = { 10, 10, 8 };
	unsigned long numbers[3];

	for (int i = 0; i < 3; i++) {
		char *end;

		if (*text < '0' || *text > '9')
			return false;
		errno = 0;
		numbers[i] = strtoul(text, &end, bases[i]);
		if (errno || numbers[i] >= UINT32_MAX || (*end != ':' && (i < 2 || *end)))
			return false;
		text = end + 1;
	}
	*owner = (struct ob_fs_owner){ (uint32_t)numbers[0], (uint32_t)numbers[1],
				       numbers[2] & MODE_BITS };
	return true;
}

static bool read_attribute(int fd, const struct stat *host, struct ob_fs_owner *owner)
{
	char text[64];
	ssize_t length;

	if (!has_attributes(host->st_mode))
		return false;
	length = getxattr(ob_fs_path_of(fd).text, ATTRIBUTE, text, sizeof(text) - 1);
	if (length <= 0)
		return false;
	text[length] = '\0';
	return parse(text, owner);
}

/* A file of another user gives no privileges of that user. */
static struct ob_fs_owner of_host(const struct ob_fs_share *share, const struct stat *host)
{
	struct ob_fs_owner owner = {
		.uid = host->st_uid == share->user ? 0 : OB_FS_NOBODY,
		.gid = host->st_gid == share->group ? 0 : OB_FS_NOBODY,
		.mode = host->st_mode & MODE_BITS,
	};

	if (owner.uid && !S_ISDIR(host->st_mode))
		owner.mode &= ~PRIVILEGE_BITS;
	return owner;
}

struct ob_fs_owner ob_fs_owner_read(const struct ob_fs_share *share, int fd,
				    const struct stat *host)
{
	struct ob_fs_owner owner;

	if (share->has_owners)
		return (struct ob_fs_owner){ host->st_uid, host->st_gid,
					     host->st_mode & MODE_BITS };
	if (read_attribute(fd, host, &owner))
		return owner;
	return of_host(share, host);
}

/* ---- writing ------------------------------------------------------------------ */

static const char *type_name(mode_t mode)
{
	return S_ISDIR(mode) ? "dir" : "file";
}

/* The mode of a file of the host that the process itself can use, as far as it may be its own. */
static uint32_t usable(mode_t type, uint32_t mode)
{
	return (mode & HOST_BITS) | (S_ISDIR(type) ? S_IRWXU : S_ISREG(type) ? 0600 : 0);
}

mode_t ob_fs_owner_first_mode(const struct ob_fs_share *share, mode_t type, uint32_t mode)
{
	return share->has_owners ? mode & 0777 : usable(type, mode) & 0777;
}

static int set_mode(int fd, const struct stat *host, uint32_t mode)
{
	if (S_ISLNK(host->st_mode) || (host->st_mode & MODE_BITS) == mode)
		return 0;
	return ob_fs_result(chmod(ob_fs_path_of(fd).text, mode));
}

static int write_real(int fd, const struct stat *host, const struct ob_fs_owner *wanted)
{
	struct stat now = *host;
	int error;

	if (host->st_uid != wanted->uid || host->st_gid != wanted->gid) {
		error = ob_fs_result(fchownat(fd, "", wanted->uid, wanted->gid, AT_EMPTY_PATH));
		/* An owner that the user namespace of the process does not have. */
		if (error)
			return error == -EINVAL ? -EPERM : error;
		/* The host has dropped privileges. */
		error = ob_fs_result(fstat(fd, &now));
		if (error)
			return error;
	}
	return set_mode(fd, &now, wanted->mode);
}

static int write_attribute(int fd, const struct stat *host, const struct ob_fs_owner *wanted)
{
	char text[64];
	int length;

	if (!has_attributes(host->st_mode))
		return -EPERM;
	length = snprintf(text, sizeof(text), "%u:%u:%04o:%s", wanted->uid, wanted->gid,
			  wanted->mode, type_name(host->st_mode));
	return ob_fs_result(setxattr(ob_fs_path_of(fd).text, ATTRIBUTE, text, (size_t)length, 0));
}

static int remove_attribute(int fd, const struct stat *host)
{
	int error;

	if (!has_attributes(host->st_mode))
		return 0;
	error = ob_fs_result(removexattr(ob_fs_path_of(fd).text, ATTRIBUTE));
	return error == -ENODATA || error == -EOPNOTSUPP ? 0 : error;
}

/* Without the attribute: the mode alone, if the host's file may have it. */
static int write_mode(int fd, const struct stat *host, const struct ob_fs_owner *natural,
		      const struct ob_fs_owner *wanted)
{
	if ((wanted->uid && wanted->uid != natural->uid) ||
	    (wanted->gid && wanted->gid != natural->gid) || wanted->mode & ~HOST_BITS)
		return -EPERM;
	return set_mode(fd, host, wanted->mode);
}

static bool is_same(const struct ob_fs_owner *a, const struct ob_fs_owner *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->mode == b->mode;
}

static int write_kept(const struct ob_fs_share *share, int fd, const struct stat *host,
		      const struct ob_fs_owner *wanted)
{
	struct ob_fs_owner now = ob_fs_owner_read(share, fd, host);
	struct ob_fs_owner natural = of_host(share, host);
	uint32_t mode = usable(host->st_mode, wanted->mode);
	int error;

	if (is_same(&now, wanted))
		return 0;
	if (host->st_uid != share->user)
		return -EPERM;
	natural.mode = mode;
	if (is_same(&natural, wanted)) {
		error = remove_attribute(fd, host);
		return error ? error : set_mode(fd, host, mode);
	}
	error = write_attribute(fd, host, wanted);
	if (error == -EOPNOTSUPP || error == -EPERM)
		return write_mode(fd, host, &natural, wanted);
	return error ? error : set_mode(fd, host, mode);
}

int ob_fs_owner_write(const struct ob_fs_share *share, int fd, const struct stat *host,
		      const struct ob_fs_owner *wanted)
{
	if (share->has_owners)
		return write_real(fd, host, wanted);
	return write_kept(share, fd, host, wanted);
}

uint32_t ob_fs_owner_plain_mode(uint32_t mode)
{
	mode &= ~(uint32_t)S_ISUID;
	return mode & S_IXGRP ? mode & ~(uint32_t)S_ISGID : mode;
}

int ob_fs_owner_drop_privileges(const struct ob_fs_share *share, int fd)
{
	struct ob_fs_owner owner;
	struct stat host;
	uint32_t mode;

	if (fstat(fd, &host))
		return -errno;
	owner = ob_fs_owner_read(share, fd, &host);
	mode = ob_fs_owner_plain_mode(owner.mode);
	if (!S_ISREG(host.st_mode) || mode == owner.mode)
		return 0;
	owner.mode = mode;
	return ob_fs_owner_write(share, fd, &host, &owner);
}
