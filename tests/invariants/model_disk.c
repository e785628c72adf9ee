// SPDX-License-Identifier: GPL-2.0-only
/* See model_disk.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../library/check.h"
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

static long host_call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	if (result < 0 && result >= -4095) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

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
	for (unsigned long block = first_block(offset); block <= last_block(offset, length);
	     block++)
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
	for (unsigned long block = first_block(offset); block <= last_block(offset, length);
	     block++)
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

static ssize_t transfer(long number, const long *a)
{
	be_slow();
	return host_call(number, a[0], a[1], a[2], a[3], a[4], a[5] & ~RWF_DSYNC);
}

static long model_read(const long *a)
{
	return refuse((int)a[5]) ? -1 : transfer(SYS_preadv2, a);
}

static long model_write(const long *a)
{
	ssize_t bytes;

	if (refuse((int)a[5]))
		return -1;
	bytes = transfer(SYS_pwritev2, a);
	written(a[3], bytes);
	if (a[5] & RWF_DSYNC)
		forced((int)a[0], a[3], bytes);
	return bytes;
}

static long model_flush(const long *a)
{
	be_slow();
	flushed((int)a[0]);
	return 0;
}

static long model_hole(const long *a)
{
	long error = host_call(SYS_fallocate, a[0], a[1], a[2], a[3], 0, 0);

	if (!error)
		written(a[2], a[3]);
	return error;
}

/*
 * Takes the place of the C library's. Each caller passes at most six arguments; the rest is not
 * looked at.
 */
long syscall(long number, ...)
{
	va_list list;
	long a[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	switch (number) {
	case SYS_preadv2:
		return model_read(a);
	case SYS_pwritev2:
		return model_write(a);
	case SYS_fdatasync:
		return model_flush(a);
	case SYS_fallocate:
		return model_hole(a);
	}
	return host_call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
