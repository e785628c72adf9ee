// SPDX-License-Identifier: GPL-2.0-only
/*
 * With one vCPU, nobody holds it while a disk works (V7): during reads and flushes that
 * take 20 ms each, another thread calls on. Its calls are counted while the disk is busy, which would be none if the vCPU
 * were kept for the length of the operation. Argument: an ext4 image.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../capi/client.h"
#include "model_disk.h"

#define OPERATIONS 40
#define BLOCK 65536ul

static int stop;
static long calls, busy_with_calls;	/* made while the disk was busy; operations with at least one */

static void *calls_on(void *unused)
{
	long last = 0;

	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
		long begun = __atomic_load_n(&model_disk_begun, __ATOMIC_SEQ_CST);
		int busy = __atomic_load_n(&model_disk_busy, __ATOMIC_SEQ_CST);

		OK(ob_sys_getppid());
		/* The same operation before and after the call. */
		if (!busy || !__atomic_load_n(&model_disk_busy, __ATOMIC_SEQ_CST) ||
		    __atomic_load_n(&model_disk_begun, __ATOMIC_SEQ_CST) != begun)
			continue;
		calls++;
		if (begun != last)
			busy_with_calls++;
		last = begun;
	}
	return NULL;
}

static void flushes(int fd)
{
	char block[4096];

	for (int i = 0; i < OPERATIONS; i++) {
		memset(block, i, sizeof(block));
		OK(ob_sys_pwrite64(fd, block, sizeof(block), i * 4096));
		OK(ob_sys_fdatasync(fd));
	}
}

static void reads(int fd)
{
	char *block = aligned_alloc(4096, BLOCK);

	CHECK(block);
	for (int i = 0; i < OPERATIONS; i++) {
		CHECK_EQUAL(OK(ob_sys_pread64(fd, block, BLOCK, i * (int64_t)BLOCK)), BLOCK);
		CHECK_EQUAL(block[100], 'd');
	}
	free(block);
}

static void beside(void (*work)(int fd), int fd)
{
	long begun = __atomic_load_n(&model_disk_begun, __ATOMIC_SEQ_CST);
	pthread_t thread;

	stop = 0;
	calls = busy_with_calls = 0;
	CHECK(!pthread_create(&thread, NULL, calls_on, NULL));
	work(fd);
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	begun = __atomic_load_n(&model_disk_begun, __ATOMIC_SEQ_CST) - begun;
	printf("%ld slow operations, %ld of them with calls, %ld calls\n", begun, busy_with_calls, calls);
	CHECK(begun >= OPERATIONS);
	CHECK(busy_with_calls >= begun / 2);
	CHECK(calls >= 100 * begun);
}

static int make_file(void)
{
	static char block[BLOCK];
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/disk/data", O_RDWR | O_CREAT, 0644));

	memset(block, 'd', BLOCK);
	for (int i = 0; i < OPERATIONS; i++)
		CHECK_EQUAL(OK(ob_sys_write(fd, block, BLOCK)), BLOCK);
	OK(ob_sys_fsync(fd));
	OK(ob_sys_close(fd));
	return (int)OK(ob_sys_openat(AT_FDCWD, "/disk/data", O_RDWR | O_DIRECT, 0));
}

int main(int count, char **arguments)
{
	int direct, cached;

	CHECK_EQUAL(count, 2);
	model_disk_delay = 20000;
	client_boot(1);
	client_mount(arguments[1], "ext4", "/disk");
	direct = make_file();
	beside(reads, direct);
	cached = (int)OK(ob_sys_openat(AT_FDCWD, "/disk/flushed", O_RDWR | O_CREAT, 0644));
	beside(flushes, cached);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
