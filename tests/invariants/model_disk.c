// SPDX-License-Identifier: GPL-2.0-only
/* See model_disk.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../capi/check.h"
#include "model_disk.h"

#define BLOCK 4096ul
#define BLOCKS (1ul << 20)		/* 4 GB are enough */

unsigned int model_disk_delay;
const char *model_disk_stable;
int model_disk_busy;
long model_disk_begun;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char unflushed[BLOCKS];	/* 1: the block was written and not flushed since */
static int stable = -1;

static void slow_begin(void)
{
	if (!model_disk_delay)
		return;
	__atomic_add_fetch(&model_disk_begun, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&model_disk_busy, 1, __ATOMIC_SEQ_CST);
	usleep(model_disk_delay);
}

static void slow_end(void)
{
	if (model_disk_delay)
		__atomic_sub_fetch(&model_disk_busy, 1, __ATOMIC_SEQ_CST);
}

/* After the write: a flush that has begun already need not take it along. */
static void written(off_t offset, off_t length)
{
	if (!model_disk_stable || length <= 0)
		return;
	pthread_mutex_lock(&mutex);
	for (unsigned long block = (unsigned long)offset / BLOCK;
	     block <= (unsigned long)(offset + length - 1) / BLOCK; block++) {
		CHECK(block < BLOCKS);
		unflushed[block] = 1;
	}
	pthread_mutex_unlock(&mutex);
}

static void copy_to_stable(int fd, unsigned long block)
{
	char data[BLOCK];
	ssize_t bytes = pread(fd, data, BLOCK, (off_t)(block * BLOCK));

	CHECK(bytes > 0);
	CHECK(pwrite(stable, data, (size_t)bytes, (off_t)(block * BLOCK)) == bytes);
}

static void flushed(int fd)
{
	if (!model_disk_stable)
		return;
	pthread_mutex_lock(&mutex);
	if (stable < 0)
		stable = open(model_disk_stable, O_RDWR | O_CLOEXEC);
	CHECK(stable >= 0);
	for (unsigned long block = 0; block < BLOCKS; block++) {
		if (unflushed[block])
			copy_to_stable(fd, block);
		unflushed[block] = 0;
	}
	pthread_mutex_unlock(&mutex);
}

static long host_call(long number, int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
	return syscall(number, fd, vector, count, offset, 0, flags);
}

ssize_t preadv2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
	ssize_t bytes;

	if (model_disk_delay && flags & RWF_NOWAIT) {
		errno = EAGAIN;
		return -1;
	}
	slow_begin();
	bytes = host_call(SYS_preadv2, fd, vector, count, offset, flags);
	slow_end();
	return bytes;
}

ssize_t pwritev2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
	ssize_t bytes;

	if (model_disk_delay && flags & RWF_NOWAIT) {
		errno = EAGAIN;
		return -1;
	}
	slow_begin();
	bytes = host_call(SYS_pwritev2, fd, vector, count, offset, flags & ~RWF_DSYNC);
	if (bytes > 0)
		written(offset, bytes);
	/* Forcing one write out takes others along: allowed, but then nothing shows that a flush was missing. */
	if (bytes > 0 && flags & RWF_DSYNC && model_disk_stable) {
		pthread_mutex_lock(&mutex);
		if (stable < 0)
			stable = open(model_disk_stable, O_RDWR | O_CLOEXEC);
		CHECK(stable >= 0);
		for (unsigned long block = (unsigned long)offset / BLOCK;
		     block <= (unsigned long)(offset + bytes - 1) / BLOCK; block++)
			copy_to_stable(fd, block);
		pthread_mutex_unlock(&mutex);
	}
	slow_end();
	return bytes;
}

int fdatasync(int fd)
{
	slow_begin();
	flushed(fd);
	slow_end();
	return 0;
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
	long error = syscall(SYS_fallocate, fd, mode, offset, length);

	if (!error)
		written(offset, length);
	return (int)error;
}
