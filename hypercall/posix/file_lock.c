// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock on a file that is a disk: flock() between programs of this library, and QEMU's protocol.
 *
 * QEMU locks single bytes of an image that it uses (block/file-posix.c). Byte HELD + n says that
 * the owner does operation n. Byte NOT_SHARED + n says that nobody else may do it. All of these
 * locks are shared ones: only the fact that a byte is locked counts. This file takes, and respects,
 * the locks of a program that uses a qcow2 image.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>

#include <outboard/platform_host.h>

enum { CONSISTENT_READ, WRITE, WRITE_UNCHANGED, RESIZE, COUNT };

#define HELD 100
#define NOT_SHARED 200

#define BIT(n) (1u << (n))
#define CHANGES (BIT(WRITE) | BIT(RESIZE))

static int byte_lock(int fd, int command, short type, off_t byte, off_t count, struct flock *lock)
{
	*lock = (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = count
	};
	return fcntl(fd, command, lock);
}

/*
 * -EBUSY: another open file description has the lock, maybe one of this program. A file system may
 * have no such locks.
 */
static int lock_bytes(int fd, off_t first, unsigned int bits)
{
	struct flock lock;

	for (int n = 0; n < COUNT; n++)
		if (bits & BIT(n) && byte_lock(fd, F_OFD_SETLK, F_RDLCK, first + n, 1, &lock) &&
		    (errno == EAGAIN || errno == EACCES))
			return -EBUSY;
	return 0;
}

static int check_bytes(int fd, off_t first, unsigned int bits)
{
	struct flock lock;

	for (int n = 0; n < COUNT; n++)
		if (bits & BIT(n) && !byte_lock(fd, F_OFD_GETLK, F_WRLCK, first + n, 1, &lock) &&
		    lock.l_type != F_UNLCK)
			return -EBUSY;
	return 0;
}

static void unlock_bytes(int fd)
{
	struct flock lock;

	byte_lock(fd, F_OFD_SETLK, F_UNLCK, HELD, COUNT, &lock);
	byte_lock(fd, F_OFD_SETLK, F_UNLCK, NOT_SHARED, COUNT, &lock);
}

/*
 * Locks first, then checks the other programs' locks. Of two that begin at once both may fail, but
 * never none.
 */
static int lock_as_qemu(int fd, bool exclusive)
{
	unsigned int held = BIT(CONSISTENT_READ) | (exclusive ? CHANGES : 0);
	int error = lock_bytes(fd, HELD, held);

	if (!error)
		error = lock_bytes(fd, NOT_SHARED, CHANGES);
	if (!error)
		error = check_bytes(fd, NOT_SHARED, held);
	if (!error)
		error = check_bytes(fd, HELD, CHANGES);
	return error;
}

int ob_platform_file_lock(int fd, bool exclusive)
{
	int error;

	while (flock(fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			return -EBUSY;
		/* Any other error: the file system has no such locks. */
		if (errno != EINTR)
			break;
	}
	error = lock_as_qemu(fd, exclusive);
	if (error)
		ob_platform_file_unlock(fd);
	return error;
}

void ob_platform_file_unlock(int fd)
{
	unlock_bytes(fd);
	flock(fd, LOCK_UN);
}
