// SPDX-License-Identifier: GPL-2.0-only
/* Block: opens and measures the file that a path names. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "block.h"
#include "raw.h"

#define FILE_SECTOR_SIZE 512

/* Not in the headers of older hosts. */
#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif

/* 0: a file of this type can be a disk. */
static int check_type(const struct stat *status)
{
	if (S_ISREG(status->st_mode) || S_ISBLK(status->st_mode))
		return 0;
	return S_ISDIR(status->st_mode) ? -EISDIR : -ENOTBLK;
}

/* The error for a path that cannot be opened for writing: -EROFS if it can be read. */
static int why_not_writable(const char *path, int error)
{
	int fd;

	if (error != EACCES && error != EPERM && error != EROFS && error != ETXTBSY)
		return -error;
	fd = raw_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -EACCES;
	raw_close(fd);
	return error == ETXTBSY ? -ETXTBSY : -EROFS;
}

/* N of "/dev/fd/N", or -1. */
static int descriptor_number(const char *path)
{
	unsigned int number;
	char rest;

	return sscanf(path, "/dev/fd/%9u%c", &number, &rest) == 1 ? (int)number : -1;
}

/*
 * With O_APPEND the host writes at the end of the file, whatever offset it is given. With O_DIRECT
 * it refuses requests that are aligned to sectors only. With O_PATH it refuses all.
 */
static int check_flags(int flags, bool read_only)
{
	if (flags & (O_APPEND | O_DIRECT))
		return -EINVAL;
	if (flags & O_PATH)
		return -EBADF;
	if ((flags & O_ACCMODE) == O_WRONLY)
		return -EACCES;
	return read_only || (flags & O_ACCMODE) == O_RDWR ? 0 : -EROFS;
}

/*
 * Hosts before Linux 6.9 do not know the flag, and refuse it for reads, too. overlayfs does not
 * pass it on.
 */
static bool knows_no_append(int fd)
{
	char byte;
	struct iovec piece = { &byte, sizeof(byte) };
	struct statfs system;

	return raw_preadv2(fd, &piece, 1, 0, RWF_NOAPPEND) >= 0 && !fstatfs(fd, &system) &&
	       system.f_type != OVERLAYFS_SUPER_MAGIC;
}

/*
 * Duplicates the descriptor. To open its file again may not be allowed, and would give another open
 * file description. Another process that has the description may set O_APPEND later.
 */
static int open_descriptor(struct ob_posix_disk *disk, int number)
{
	int flags = fcntl(number, F_GETFL);
	struct stat status;
	int error;

	if (flags < 0 || fstat(number, &status))
		return -errno;
	error = check_type(&status);
	if (error)
		return error;
	error = check_flags(flags, disk->read_only);
	if (error)
		return error;
	disk->is_device = S_ISBLK(status.st_mode);
	disk->fd = raw_dup(number);
	if (disk->fd < 0)
		return -errno;
	disk->checks_append = !knows_no_append(disk->fd);
	disk->write_flags = disk->checks_append ? 0 : RWF_NOAPPEND;
	return 0;
}

/* Opens the path after a check of its type: opening a FIFO or a terminal has side effects. */
static int open_path(struct ob_posix_disk *disk, const char *path, bool lock)
{
	int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (disk->read_only ? O_RDONLY : O_RDWR);
	struct stat status;
	int error;

	if (stat(path, &status))
		return -errno;
	error = check_type(&status);
	if (error)
		return error;
	/* With O_EXCL the host refuses a device that is mounted or otherwise claimed. */
	if (S_ISBLK(status.st_mode) && lock && !disk->read_only)
		flags |= O_EXCL;
	disk->fd = raw_open(path, flags);
	if (disk->fd < 0)
		return disk->read_only ? -errno : why_not_writable(path, errno);
	/* The path may name another file by now. */
	if (fstat(disk->fd, &status))
		return -errno;
	disk->is_device = S_ISBLK(status.st_mode);
	return check_type(&status);
}

/* Reads one number from the host's description of a block device; 0 if there is none. */
static uint64_t device_attribute(const struct ob_posix_disk *disk, const char *name)
{
	/* A partition has no queue of its own, but its parent has. */
	static const char *const places[] = { "queue", "../queue" };
	char path[128], text[32];
	struct stat status;
	ssize_t length = 0;

	if (fstat(disk->fd, &status))
		return 0;
	for (int i = 0; i < 2 && length <= 0; i++) {
		int fd;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s",
			 major(status.st_rdev), minor(status.st_rdev), places[i], name);
		fd = raw_open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		length = raw_read(fd, text, sizeof(text) - 1);
		raw_close(fd);
	}
	if (length <= 0)
		return 0;
	text[length] = '\0';
	return strtoull(text, NULL, 10);
}

static int measure_device(struct ob_posix_disk *disk)
{
	int sector_size;

	if (ioctl(disk->fd, BLKGETSIZE64, &disk->size) || ioctl(disk->fd, BLKSSZGET, &sector_size))
		return -errno;
	disk->sector_size = (uint32_t)sector_size;
	disk->can_discard = !disk->read_only && device_attribute(disk, "discard_max_bytes") > 0;
	return 0;
}

static int measure_file(struct ob_posix_disk *disk)
{
	struct stat status;

	if (fstat(disk->fd, &status))
		return -errno;
	disk->size = (uint64_t)status.st_size;
	/* A write beyond the limit would end the process by SIGXFSZ. */
	if (!disk->read_only && disk->size > ob_posix_file_most())
		return -EFBIG;
	disk->sector_size = FILE_SECTOR_SIZE;
	/*
	 * A hole beyond the end loses nothing. It only shows whether the file system supports
	 * holes.
	 */
	disk->can_discard = !disk->read_only &&
			    raw_fallocate(disk->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				      status.st_size, FILE_SECTOR_SIZE) == 0;
	return 0;
}

static int open_and_measure(struct ob_posix_disk *disk, const char *path, uint32_t flags)
{
	bool lock = !(flags & OB_BLOCK_NO_LOCK);
	int number = descriptor_number(path);
	int error;

	error = number < 0 ? open_path(disk, path, lock) : open_descriptor(disk, number);
	if (!error && lock)
		error = ob_posix_disk_lock(disk);
	if (!error)
		error = disk->is_device ? measure_device(disk) : measure_file(disk);
	if (!error)
		disk->size -= disk->size % disk->sector_size;
	return error;
}

int ob_posix_disk_open(struct ob_posix_disk *disk, const char *path, uint32_t flags)
{
	int error;

	/*
	 * The first flush must also make durable what other programs wrote before: that counts as
	 * one change.
	 */
	*disk = (struct ob_posix_disk){
		.in_use = true, .fd = -1, .read_only = flags & OB_BLOCK_READ_ONLY, .changes = 1,
	};
	error = open_and_measure(disk, path, flags);
	if (error && disk->fd >= 0)
		ob_posix_disk_close(disk);
	return error;
}

void ob_posix_disk_close(struct ob_posix_disk *disk)
{
	if (disk->served.perform) {
		disk->served.closed(disk->served.context);
		return;
	}
	if (disk->lock)
		ob_posix_disk_unlock(disk);
	else
		raw_close(disk->fd);
	disk->fd = -1;
}
