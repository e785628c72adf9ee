// SPDX-License-Identifier: GPL-2.0-only
/* Files that lib/ reads as a whole, or appends lines of the log to. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "internal.h"
#include "raw.h"

static int read_open(int file, void **bytes, uint64_t *size)
{
	struct stat status;
	void *got;

	if (fstat(file, &status))
		return -errno;
	if (!S_ISREG(status.st_mode) || !status.st_size)
		return -ENOEXEC;
	/* A copy: a file that shrinks while it is mapped would raise a signal. */
	got = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (got == MAP_FAILED)
		return -ENOMEM;
	if (raw_read(file, got, (size_t)status.st_size) != status.st_size) {
		munmap(got, (size_t)status.st_size);
		return -EIO;
	}
	*bytes = got;
	*size = (uint64_t)status.st_size;
	return 0;
}

int ob_platform_file_read(const char *path, void **bytes, uint64_t *size)
{
	/* A FIFO must not block. read_open() refuses it. */
	int file = raw_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int error;

	if (file < 0)
		return -errno;
	error = read_open(file, bytes, size);
	raw_close(file);
	return error;
}

void ob_platform_file_free(void *bytes, uint64_t size)
{
	munmap(bytes, size);
}

int ob_platform_log_open(const char *path)
{
	return raw_openat(AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
			  O_NONBLOCK, 0666);
}

void ob_platform_log_close(int handle)
{
	raw_close(handle);
}

/* One system call per line, so that lines of several threads do not mix. */
void ob_platform_log_write(int handle, const char *prefix, const char *line, uint64_t length)
{
	struct iovec parts[3] = {
		{ .iov_base = (void *)prefix, .iov_len = strlen(prefix) },
		{ .iov_base = (void *)line, .iov_len = length },
		{ .iov_base = (void *)"\n", .iov_len = 1 },
	};
	ssize_t written = raw_writev(handle, parts, 3);

	/* There is nowhere to report that a log line is lost. */
	(void)written;
}
