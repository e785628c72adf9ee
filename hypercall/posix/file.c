// SPDX-License-Identifier: GPL-2.0-only
/* Files that lib/ reads as a whole. */
#include <errno.h>
#include <fcntl.h>
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
