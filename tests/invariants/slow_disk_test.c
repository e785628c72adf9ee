// SPDX-License-Identifier: GPL-2.0-only
/*
 * With one vCPU, nobody holds it while a disk works (V7): each read and flush lasts until another
 * thread has made calls meanwhile, which it could not if the vCPU were kept for the length of the
 * operation. Argument: an ext4 image.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../library/client.h"
#include "model_disk.h"

#define OPERATIONS 40
#define BLOCK 65536ul
#define CALLS 100		/* that an operation waits for */
#define PATIENCE 120000		/* milliseconds that it waits, on however busy a host */

static int stop, watched;
static long calls;

static void *calls_on(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST)) {
		OK(ob_sys_getppid());
		__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
	}
	return unused;
}

/* In the thread of the host that works on the disk. */
static void wait_for_calls(void)
{
	long wanted = __atomic_load_n(&calls, __ATOMIC_SEQ_CST) + CALLS;

	for (int i = 0; __atomic_load_n(&watched, __ATOMIC_SEQ_CST); i++) {
		if (__atomic_load_n(&calls, __ATOMIC_SEQ_CST) >= wanted)
			return;
		CHECK(i < PATIENCE && "calls are made while the disk works");
		usleep(1000);
	}
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

	__atomic_store_n(&stop, 0, __ATOMIC_SEQ_CST);
	CHECK(!pthread_create(&thread, NULL, calls_on, NULL));
	__atomic_store_n(&watched, 1, __ATOMIC_SEQ_CST);
	work(fd);
	__atomic_store_n(&watched, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	begun = __atomic_load_n(&model_disk_begun, __ATOMIC_SEQ_CST) - begun;
	printf("%ld slow operations\n", begun);
	CHECK(begun >= OPERATIONS);
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
	model_disk_delay = 1000;
	model_disk_wait = wait_for_calls;
	client_boot(1);
	client_mount(arguments[1], "ext4", "/disk");
	direct = make_file();
	beside(reads, direct);
	cached = (int)OK(ob_sys_openat(AT_FDCWD, "/disk/flushed", O_RDWR | O_CREAT, 0644));
	beside(flushes, cached);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
