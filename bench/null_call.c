/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cost of a call that does nothing (getppid), against the host's own.
 *
 * Usage: null_call ROUNDS [one]. Each round measures, in turn, the host with one and two threads
 * and the library with one and two. One line per round: four numbers, nanoseconds of wall time per
 * call, all threads counted together. With "one": a number per round, the library with one thread.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <outboard/outboard.h>

#define CALLS 10000000L
#define THREADS 2

static pthread_barrier_t start;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *host_calls(void *unused)
{
	pthread_barrier_wait(&start);
	for (long i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	return unused;
}

static void *library_calls(void *unused)
{
	if (ob_syscall(SYS_getppid) < 0)	/* the thread is adopted before the clock runs */
		abort();
	pthread_barrier_wait(&start);
	for (long i = 0; i < CALLS; i++)
		ob_syscall(SYS_getppid);
	return unused;
}

static double measure(void *(*calls)(void *), int threads)
{
	pthread_t others[THREADS];
	double begin;

	pthread_barrier_init(&start, NULL, threads + 1);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&others[i], NULL, calls, NULL) != 0)
			abort();
	pthread_barrier_wait(&start);
	begin = now();
	for (int i = 0; i < threads; i++)
		pthread_join(others[i], NULL);
	pthread_barrier_destroy(&start);
	return (now() - begin) / (CALLS * threads);
}

int main(int argc, char **argv)
{
	struct ob_config config = { .size = sizeof(config),
				    .vcpus = THREADS,
				    .log_level = OB_LOG_DEFAULT };
	int rounds = argc > 1 ? atoi(argv[1]) : 5;

	if (ob_boot(&config) != 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		return 1;
	}
	for (int i = 0; i < rounds; i++)
		if (argc > 2)
			printf("%f\n", measure(library_calls, 1));
		else
			printf("%f %f %f %f\n", measure(host_calls, 1), measure(host_calls, 2),
			       measure(library_calls, 1), measure(library_calls, 2));
	return ob_halt() == 0 ? 0 : 1;
}
