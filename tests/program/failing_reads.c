// SPDX-License-Identifier: GPL-2.0-only
/*
 * Preloaded into a server: reads of files of BAD_SIZE bytes return BAD_RESULT from the offset
 * BAD_FROM on. -1: EIO, as on a disk with bad sectors; 0: as if the file ended there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
/* The function of the C library that the one here stands before. */
#define NEXT(name) ((typeof(&name))dlsym(RTLD_NEXT, #name))

static bool is_bad(int file, off64_t offset, size_t length)
{
	struct stat status;

	if (offset + (off64_t)length <= BAD_FROM || fstat(file, &status) ||
	    status.st_size != BAD_SIZE)
		return false;
	errno = EIO;
	return true;
}

static size_t length_of(const struct iovec *parts, int count)
{
	size_t length = 0;

	while (count-- > 0)
		length += parts[count].iov_len;
	return length;
}

/* Ganesha's components look for functions in the C library first. */
EXPORT void *dlopen(const char *path, int flags)
{
	return NEXT(dlopen)(path, flags & ~RTLD_DEEPBIND);
}

EXPORT ssize_t pread(int file, void *buffer, size_t length, off_t offset)
{
	return is_bad(file, offset, length) ?
	       BAD_RESULT : NEXT(pread)(file, buffer, length, offset);
}

EXPORT ssize_t pread64(int file, void *buffer, size_t length, off64_t offset)
{
	return is_bad(file, offset, length) ?
	       BAD_RESULT : NEXT(pread64)(file, buffer, length, offset);
}

EXPORT ssize_t preadv(int file, const struct iovec *parts, int count, off_t offset)
{
	return is_bad(file, offset, length_of(parts, count)) ?
	       BAD_RESULT : NEXT(preadv)(file, parts, count, offset);
}

EXPORT ssize_t preadv64(int file, const struct iovec *parts, int count, off64_t offset)
{
	return is_bad(file, offset, length_of(parts, count)) ?
	       BAD_RESULT : NEXT(preadv64)(file, parts, count, offset);
}
