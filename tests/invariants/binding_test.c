// SPDX-License-Identifier: GPL-2.0-only
/*
 * A host thread keeps its task, and the task its thread (V1): through evictions and moves
 * from vCPU to vCPU, number and name stay the thread's own,
 * and no two live threads share them. Argument: the number of vCPUs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../library/client.h"

#define THREADS 64
#define CALLS 4000

static pthread_barrier_t barrier;
static long numbers[THREADS];

static void check_name(const char *wanted)
{
	char name[16] = "";

	OK(ob_sys_prctl(PR_GET_NAME, (unsigned long)name, 0, 0, 0));
	CHECK(!strcmp(name, wanted));
}

static void *calls(void *argument)
{
	long index = (long)argument;
	char name[16];

	snprintf(name, sizeof(name), "thread-%ld", index);
	numbers[index] = OK(ob_sys_gettid());
	OK(ob_sys_prctl(PR_SET_NAME, (unsigned long)name, 0, 0, 0));
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < CALLS; i++) {
		CHECK_EQUAL(OK(ob_sys_gettid()), numbers[index]);
		if (i % 100 == 0) {
			check_name(name);
			OK(ob_sys_sched_yield());
		}
		/* Longer than a tick: the task is evicted. */
		if ((i + index * 37) % 1000 == 0)
			usleep(25000);
	}
	/* All numbers are looked at while all threads live. */
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	return NULL;
}

static int ascending(const void *a, const void *b)
{
	long left = *(const long *)a, right = *(const long *)b;

	return (left > right) - (left < right);
}

static void check_different(void)
{
	long sorted[THREADS];

	memcpy(sorted, numbers, sizeof(sorted));
	qsort(sorted, THREADS, sizeof(long), ascending);
	for (int i = 1; i < THREADS; i++)
		CHECK(sorted[i] != sorted[i - 1]);
	for (int i = 0; i < THREADS; i++)
		CHECK(sorted[i] != ob_sys_gettid());
}

int main(int count, char **arguments)
{
	pthread_t threads[THREADS];

	CHECK_EQUAL(count, 2);
	client_boot((unsigned int)atoi(arguments[1]));
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	for (long i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, calls, (void *)i));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	check_different();
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
