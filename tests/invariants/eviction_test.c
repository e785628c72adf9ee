// SPDX-License-Identifier: GPL-2.0-only
/*
 * With one vCPU, a task that is parked on it while its thread computes is not in anybody's way
 * (V8): another thread makes all of its calls before the first is done computing. The first is done
 * only then, so that no time is measured; a deadline ends it when the other cannot go on.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "../library/client.h"

#define CALLS 10000
#define ROUNDS 5
#define DEADLINE 120		/* seconds; a round takes about a tick on a quiet host */

static pthread_barrier_t barrier;
static int calls_made, computing;

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int all_calls_made(void)
{
	return __atomic_load_n(&calls_made, __ATOMIC_SEQ_CST) == CALLS;
}

static void *computes(void *unused)
{
	double end;

	(void)unused;
	for (int round = 0; round < ROUNDS; round++) {
		long number = OK(ob_sys_gettid());

		__atomic_store_n(&calls_made, 0, __ATOMIC_SEQ_CST);
		__atomic_store_n(&computing, 1, __ATOMIC_SEQ_CST);
		OK(ob_sys_getppid());
		/* The task is parked now, and this thread does not call. */
		pthread_barrier_wait(&barrier);
		end = seconds() + DEADLINE;
		while (!all_calls_made() && seconds() < end)
			;
		CHECK(all_calls_made());
		__atomic_store_n(&computing, 0, __ATOMIC_SEQ_CST);
		/* It comes back as the task that it was. */
		CHECK_EQUAL(OK(ob_sys_gettid()), number);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void *calls(void *unused)
{
	(void)unused;
	for (int round = 0; round < ROUNDS; round++) {
		pthread_barrier_wait(&barrier);
		for (int i = 0; i < CALLS; i++) {
			OK(ob_sys_getppid());
			CHECK(__atomic_load_n(&computing, __ATOMIC_SEQ_CST));
			__atomic_add_fetch(&calls_made, 1, __ATOMIC_SEQ_CST);
		}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[2];

	client_boot(1);
	pthread_barrier_init(&barrier, NULL, 2);
	CHECK(!pthread_create(&threads[0], NULL, computes, NULL));
	CHECK(!pthread_create(&threads[1], NULL, calls, NULL));
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
