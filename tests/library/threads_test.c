// SPDX-License-Identifier: GPL-2.0-only
/*
 * Host threads become tasks and leave as they end: nothing is left of many short-lived ones, many
 * can be inside at once, and halting ends the calls of those that are blocked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define AT_ONCE 50
#define MANY 400
#define MB (1ull << 20)

static void *short_lived(void *unused)
{
	(void)unused;
	CHECK(ob_sys_getppid() >= 0);
	return NULL;
}

static void run_short_lived(int count)
{
	pthread_t threads[AT_ONCE];

	for (int done = 0; done < count; done += AT_ONCE) {
		for (int i = 0; i < AT_ONCE; i++)
			CHECK(!pthread_create(&threads[i], NULL, short_lived, NULL));
		for (int i = 0; i < AT_ONCE; i++)
			pthread_join(threads[i], NULL);
	}
}

static void nothing_is_left(int count)
{
	uint64_t bytes;
	long tasks;

	run_short_lived(2000);
	usleep(300000);
	tasks = client_task_count();
	bytes = client_resident_bytes();
	run_short_lived(count);
	/* Kernel threads come and go. */
	client_wait_for_tasks(tasks + 10);
	/* 100,000 times the least that a task can leave, a page, would be 400 MB. */
	client_wait_for_memory(bytes + 24 * MB);
}

static pthread_barrier_t barrier;

static void *works_on_files(void *number)
{
	char path[64], text[64], got[64];
	int length = snprintf(path, sizeof(path), "/tmpfs/%ld", (long)number);

	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 50; i++) {
		int fd = OK(ob_sys_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL, 0600));
		int size = snprintf(text, sizeof(text), "%s round %d", path, i);

		CHECK_EQUAL(OK(ob_sys_pwrite64(fd, text, (size_t)size, 5000)), size);
		CHECK_EQUAL(OK(ob_sys_pread64(fd, got, sizeof(got), 5000)), size);
		CHECK(!memcmp(got, text, (size_t)size));
		OK(ob_sys_close(fd));
		OK(ob_sys_unlink(path));
	}
	CHECK(length > 0);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static void many_at_once(void)
{
	static pthread_t threads[MANY];

	pthread_barrier_init(&barrier, NULL, MANY);
	for (long i = 0; i < MANY; i++)
		CHECK(!pthread_create(&threads[i], NULL, works_on_files, (void *)i));
	for (int i = 0; i < MANY; i++)
		pthread_join(threads[i], NULL);
}

static void *relay(void *ends)
{
	int *fds = ends;
	char byte;

	for (int i = 0; i < 1000; i++) {
		CHECK_EQUAL(OK(ob_sys_read(fds[0], &byte, 1)), 1);
		CHECK_EQUAL(OK(ob_sys_write(fds[1], &byte, 1)), 1);
	}
	return NULL;
}

/* Two threads that always wait for each other: a lost wake-up would hang them. */
static void ping_pong(void)
{
	int there[2], back[2];
	int left[2], right[2];
	pthread_t threads[2];

	OK(ob_sys_pipe2(there, 0));
	OK(ob_sys_pipe2(back, 0));
	left[0] = back[0];
	left[1] = there[1];
	right[0] = there[0];
	right[1] = back[1];
	OK(ob_sys_write(right[1], "x", 1));
	CHECK(!pthread_create(&threads[0], NULL, relay, left));
	CHECK(!pthread_create(&threads[1], NULL, relay, right));
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
}

static void *blocked_for_good(void *fd)
{
	char byte;
	long result = ob_syscall(OB_SYS_read, (long)fd, &byte, 1);

	CHECK_EQUAL(result, -ENODEV);
	CHECK_EQUAL(ob_syscall(OB_SYS_getppid), -ENODEV);
	return NULL;
}

static void *calls_until_halt(void *unused)
{
	long result;

	(void)unused;
	do {
		result = ob_syscall(OB_SYS_getppid);
	} while (result >= 0);
	CHECK_EQUAL(result, -ENODEV);
	return NULL;
}

static void halt_under_load(void)
{
	pthread_t threads[8];
	int ends[2];

	OK(ob_sys_pipe2(ends, 0));
	for (int i = 0; i < 8; i++)
		CHECK(!pthread_create(&threads[i], NULL,
				      i % 2 ? blocked_for_good : calls_until_halt,
				      (void *)(long)ends[0]));
	usleep(100000);
	CHECK_EQUAL(ob_halt(), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

/* Arguments: the number of vCPUs and of short-lived threads. */
int main(int count, char **arguments)
{
	CHECK_EQUAL(count, 3);
	client_boot((unsigned int)atoi(arguments[1]));
	client_tmpfs("/tmpfs");
	ping_pong();
	many_at_once();
	nothing_is_left(atoi(arguments[2]));
	halt_under_load();
	return 0;
}
