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
void (*model_disk_wait)(void);
const char *model_disk_stable;
long model_disk_begun;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char unflushed[BLOCKS];	/* 1: the block was written and not flushed since */
static int stable = -1;

static void be_slow(void)
{
	if (!model_disk_delay)
		return;
	__atomic_add_fetch(&model_disk_begun, 1, __ATOMIC_SEQ_CST);
	usleep(model_disk_delay);
	if (model_disk_wait)
		model_disk_wait();
}

static unsigned long first_block(off_t offset)
{
	return (unsigned long)offset / BLOCK;
}

static unsigned long last_block(off_t offset, off_t length)
{
	unsigned long block = (unsigned long)(offset + length - 1) / BLOCK;

	CHECK(block < BLOCKS);
	return block;
}

/* After the write is complete: a flush that has begun already need not take it along. */
static void written(off_t offset, off_t length)
{
	if (!model_disk_stable || length <= 0)
		return;
	pthread_mutex_lock(&mutex);
	for (unsigned long block = first_block(offset); block <= last_block(offset, length); block++)
		unflushed[block] = 1;
	pthread_mutex_unlock(&mutex);
}

/* The mutex is held. */
static void copy_to_stable(int fd, unsigned long block)
{
	char data[BLOCK];
	ssize_t bytes = pread(fd, data, BLOCK, (off_t)(block * BLOCK));

	if (stable < 0)
		stable = open(model_disk_stable, O_RDWR | O_CLOEXEC);
	CHECK(stable >= 0);
	/* Nothing: whether holes can be made is tried beyond the end of the image. */
	CHECK(bytes >= 0);
	CHECK(pwrite(stable, data, (size_t)bytes, (off_t)(block * BLOCK)) == bytes);
}

static void flushed(int fd)
{
	if (!model_disk_stable)
		return;
	pthread_mutex_lock(&mutex);
	for (unsigned long block = 0; block < BLOCKS; block++) {
		if (unflushed[block])
			copy_to_stable(fd, block);
		unflushed[block] = 0;
	}
	pthread_mutex_unlock(&mutex);
}

/* A write that was forced out takes only its own blocks along. */
static void forced(int fd, off_t offset, off_t length)
{
	if (!model_disk_stable || length <= 0)
		return;
	pthread_mutex_lock(&mutex);
	for (unsigned long block = first_block(offset); block <= last_block(offset, length); block++)
		copy_to_stable(fd, block);
	pthread_mutex_unlock(&mutex);
}

/* Is the host asked for what it has in memory already? It has nothing. */
static int refuse(int flags)
{
	if (!model_disk_delay || !(flags & RWF_NOWAIT))
		return 0;
	errno = EAGAIN;
	return 1;
}

static ssize_t transfer(long number, int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
	be_slow();
	return syscall(number, fd, vector, count, offset, 0, flags & ~RWF_DSYNC);
}

ssize_t preadv2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
	return refuse(flags) ? -1 : transfer(SYS_preadv2, fd, vector, count, offset, flags);
}

ssize_t pwritev2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
	ssize_t bytes;

	if (refuse(flags))
		return -1;
	bytes = transfer(SYS_pwritev2, fd, vector, count, offset, flags);
	written(offset, bytes);
	if (flags & RWF_DSYNC)
		forced(fd, offset, bytes);
	return bytes;
}

int fdatasync(int fd)
{
	be_slow();
	flushed(fd);
	return 0;
}

int fallocate(int fd, int mode, off_t offset, off_t length)
{
	long error = syscall(SYS_fallocate, fd, mode, offset, length);

	if (!error)
		written(offset, length);
	return (int)error;
}
