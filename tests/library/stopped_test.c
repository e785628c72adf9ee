// SPDX-License-Identifier: GPL-2.0-only
/*
 * The process is stopped as a whole for longer than a halt waits for a call, in the middle of that
 * wait. To the library that is a jump of the host's clock, here of the test's. The call itself
 * takes a second: nothing is left behind.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "wait_for.h"

#define SECTORS 128

static long passed;		/* in seconds; atomic */
static bool is_held, is_writing;	/* atomic */

/* The library's calls come here. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	int result = (int)syscall(SYS_clock_gettime, clock, time);

	time->tv_sec += __atomic_load_n(&passed, __ATOMIC_SEQ_CST);
	return result;
}

static int disk_read(void *context, uint64_t offset, const struct iovec *pieces, int count)
{
	(void)context;
	(void)offset;
	for (int i = 0; i < count; i++)
		memset(pieces[i].iov_base, 0, pieces[i].iov_len);
	return 0;
}

static int disk_write(void *context, uint64_t offset, const struct iovec *pieces, int count)
{
	(void)context;
	(void)offset;
	(void)pieces;
	(void)count;
	__atomic_store_n(&is_writing, true, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&is_held, __ATOMIC_SEQ_CST))
		usleep(1000);
	return 0;
}

static int disk_flush(void *context)
{
	(void)context;
	return 0;
}

static const struct ob_disk_operations operations = {
	.size = sizeof(operations), .read = disk_read, .write = disk_write, .flush = disk_flush,
};

/* No signal ends the wait for a write. */
static void *sync_disk(void *unused)
{
	int fd = (int)ob_sys_open("/dev/vda", O_RDWR, 0);
	char block[4096] = "x";

	CHECK(fd >= 0);
	CHECK_EQUAL(ob_sys_write(fd, block, sizeof(block)), sizeof(block));
	ob_sys_fsync(fd);
	return unused;
}

static void *stop_and_go_on(void *unused)
{
	usleep(500000);
	__atomic_store_n(&passed, 15, __ATOMIC_SEQ_CST);
	usleep(500000);
	__atomic_store_n(&is_held, false, __ATOMIC_SEQ_CST);
	return unused;
}

int main(void)
{
	struct ob_disk_config config = {
		.size = sizeof(config), .operations = &operations, .capacity = SECTORS * 4096,
	};
	pthread_t client, other;

	client_boot(2);
	CHECK(ob_disk_add(&config, NULL) >= 0);
	__atomic_store_n(&is_held, true, __ATOMIC_SEQ_CST);
	CHECK(!pthread_create(&client, NULL, sync_disk, NULL));
	WAIT_FOR(__atomic_load_n(&is_writing, __ATOMIC_SEQ_CST));
	CHECK(!pthread_create(&other, NULL, stop_and_go_on, NULL));
	CHECK_EQUAL(ob_halt(), 0);
	CHECK(!pthread_join(client, NULL) && !pthread_join(other, NULL));
	client_boot(1);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
