// SPDX-License-Identifier: GPL-2.0-only
/*
 * So many threads of the program are tasks at the same time, and the one too many gets an error
 * that says so: many_threads_test THREADS MOST
 *
 * THREADS can be all there at once. Then Linux's own limit is set to MOST more tasks than there
 * are, and that many more threads are tried: the last of them make no call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define STACK_BYTES (128ul << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long called, refused, warned;
static int may_end;

static void *call_and_stay(void *unused)
{
	long result = ob_sys_getppid();
	int error = errno;

	pthread_mutex_lock(&lock);
	if (result >= 0)
		called++;
	else if (error == EAGAIN)
		refused++;
	pthread_cond_broadcast(&changed);
	while (!may_end)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return unused;
}

static void start(pthread_t *threads, long count)
{
	long before = called + refused;
	pthread_attr_t attributes;

	CHECK(!pthread_attr_init(&attributes) &&
	      !pthread_attr_setstacksize(&attributes, STACK_BYTES));
	for (long i = 0; i < count; i++)
		CHECK(!pthread_create(&threads[i], &attributes, call_and_stay, NULL));
	pthread_mutex_lock(&lock);
	while (called + refused < before + count)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	pthread_attr_destroy(&attributes);
}

static void set_limit(long tasks)
{
	char text[32];
	int length = snprintf(text, sizeof(text), "%ld\n", tasks);
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/proc/sys/kernel/threads-max", O_WRONLY, 0));

	CHECK_EQUAL(OK(ob_sys_write(fd, text, (size_t)length)), length);
	OK(ob_sys_close(fd));
}

static void note_log(void *unused, int level, const char *line, size_t length)
{
	(void)unused;
	if (level == 4 && memmem(line, length, "cannot make calls", 17))
		__atomic_add_fetch(&warned, 1, __ATOMIC_SEQ_CST);
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config),
		.vcpus = 2,
		.memory = 512ull << 20,
		.log_level = 4,
		.log = note_log,
	};
	long most, number;
	pthread_t *threads;

	CHECK_EQUAL(count, 3);
	number = atol(arguments[1]);
	most = atol(arguments[2]);
	threads = calloc((size_t)(number + most), sizeof(*threads));
	CHECK(threads);
	CHECK_EQUAL(ob_boot(&config), 0);
	if (ob_sys_mkdir("/proc", 0755))
		CHECK_EQUAL(errno, EEXIST);
	OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	start(threads, number);
	printf("%ld threads made a call, %ld did not\n", called, refused);
	CHECK_EQUAL(called, number);
	/* Kernel threads come and go: at least one thread gets in, and one does not. */
	set_limit(client_task_count() + most / 2);
	start(threads + number, most);
	CHECK(called > number && refused > 0);
	CHECK(__atomic_load_n(&warned, __ATOMIC_SEQ_CST) > 0);
	pthread_mutex_lock(&lock);
	may_end = 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	for (long i = 0; i < number + most; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
