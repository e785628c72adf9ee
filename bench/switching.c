/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The cost of threads that meet in the kernel, against the host's own.
 *
 * Usage: switching VCPUS ROUNDS. One line per round, host and library in turn for each figure:
 *   getrlimit, one thread; two threads     ns of wall time per call, all threads counted together
 *   setrlimit, one thread; two threads     the same
 *   two threads; eight threads             the same, a mixture of calls
 *   pipe ping-pong                         ns per round trip; ns of processor time, both threads
 *   a thread that is created, makes one call and is joined    ns
 *   two threads in turn, a call each, handed over by the host's futex    ns per turn of both
 */
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <outboard/outboard.h>

#define CALLS 400000L
#define TRIPS 10000L
#define CREATED 2000L
#define TURNS 5000L
#define THREADS_MAX 8

struct system {
	long (*call)(long number, ...);
};

struct job {
	const struct system *system;
	void (*one)(const struct system *system, long turn);
	long calls;
};

static pthread_barrier_t start;

static double time_of(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

static double now(void)
{
	return time_of(CLOCK_MONOTONIC);
}

static void require(int good)
{
	if (!good)
		abort();
}

static void get_limit(const struct system *system, long turn)
{
	struct rlimit limit;

	(void)turn;
	system->call(SYS_getrlimit, RLIMIT_CORE, &limit);
}

static void set_limit(const struct system *system, long turn)
{
	struct rlimit limit = { 0, 0 };

	(void)turn;
	system->call(SYS_setrlimit, RLIMIT_CORE, &limit);
}

static void mixture(const struct system *system, long turn)
{
	if (turn % 2)
		get_limit(system, turn);
	else
		system->call(SYS_getppid);
}

static void *make_calls(void *argument)
{
	const struct job *job = argument;

	job->one(job->system, 0);	/* the thread is adopted before the clock runs */
	pthread_barrier_wait(&start);
	for (long i = 0; i < job->calls; i++)
		job->one(job->system, i);
	return NULL;
}

static double calls(const struct system *system, void (*one)(const struct system *, long),
		    int threads)
{
	struct job job = { system, one, CALLS };
	pthread_t others[THREADS_MAX];
	double begin;

	pthread_barrier_init(&start, NULL, (unsigned int)threads + 1);
	for (int i = 0; i < threads; i++)
		require(!pthread_create(&others[i], NULL, make_calls, &job));
	pthread_barrier_wait(&start);
	begin = now();
	for (int i = 0; i < threads; i++)
		pthread_join(others[i], NULL);
	pthread_barrier_destroy(&start);
	return (now() - begin) / (double)(CALLS * threads);
}

struct table_tennis {
	const struct system *system;
	int there[2], back[2];
};

static void *answer(void *argument)
{
	const struct table_tennis *game = argument;
	char ball;

	for (long i = 0; i < TRIPS; i++) {
		require(game->system->call(SYS_read, game->there[0], &ball, 1L) == 1);
		require(game->system->call(SYS_write, game->back[1], &ball, 1L) == 1);
	}
	return NULL;
}

/* Returns the time of a round trip. *processor: the processor time for one, of both threads. */
static double ping_pong(const struct system *system, double *processor)
{
	struct table_tennis game = { .system = system };
	pthread_t other;
	char ball = 'o';
	double begin, end;

	require(!system->call(SYS_pipe, game.there) && !system->call(SYS_pipe, game.back));
	require(!pthread_create(&other, NULL, answer, &game));
	*processor = time_of(CLOCK_PROCESS_CPUTIME_ID);
	begin = now();
	for (long i = 0; i < TRIPS; i++) {
		require(system->call(SYS_write, game.there[1], &ball, 1L) == 1);
		require(system->call(SYS_read, game.back[0], &ball, 1L) == 1);
	}
	end = now();
	pthread_join(other, NULL);
	*processor = (time_of(CLOCK_PROCESS_CPUTIME_ID) - *processor) / TRIPS;
	for (int i = 0; i < 2; i++) {
		system->call(SYS_close, game.there[i]);
		system->call(SYS_close, game.back[i]);
	}
	return (end - begin) / TRIPS;
}

static void *one_call(void *argument)
{
	const struct system *system = argument;

	require(system->call(SYS_getppid) >= 0);
	return NULL;
}

static double create(const struct system *system)
{
	double begin = now();

	for (long i = 0; i < CREATED; i++) {
		pthread_t thread;

		require(!pthread_create(&thread, NULL, one_call, (void *)system));
		pthread_join(thread, NULL);
	}
	return (now() - begin) / CREATED;
}

struct turns {
	const struct system *system;
	uint32_t whose;			/* 0 or 1 */
};

static void take_turns(struct turns *turns, uint32_t own)
{
	for (long i = 0; i < TURNS; i++) {
		while (__atomic_load_n(&turns->whose, __ATOMIC_SEQ_CST) != own)
			syscall(SYS_futex, &turns->whose, FUTEX_WAIT_PRIVATE, !own, NULL, NULL, 0);
		require(turns->system->call(SYS_getppid) >= 0);
		__atomic_store_n(&turns->whose, !own, __ATOMIC_SEQ_CST);
		syscall(SYS_futex, &turns->whose, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
}

static void *take_second_turns(void *turns)
{
	take_turns(turns, 1);
	return NULL;
}

static double in_turn(const struct system *system)
{
	struct turns turns = { .system = system };
	double begin = now();
	pthread_t other;

	require(!pthread_create(&other, NULL, take_second_turns, &turns));
	take_turns(&turns, 0);
	pthread_join(other, NULL);
	return (now() - begin) / TURNS;
}

static void measure(const struct system *system)
{
	double trip, processor;

	printf("%f %f %f %f ", calls(system, get_limit, 1), calls(system, get_limit, 2),
	       calls(system, set_limit, 1), calls(system, set_limit, 2));
	printf("%f %f ", calls(system, mixture, 2), calls(system, mixture, 8));
	trip = ping_pong(system, &processor);
	printf("%f %f %f %f\n", trip, processor, create(system), in_turn(system));
}

int main(int argc, char **argv)
{
	const struct system host = { syscall }, library = { ob_syscall };
	struct ob_config config = { .size = sizeof(config), .log_level = OB_LOG_DEFAULT };
	int rounds;

	if (argc != 3)
		return 2;
	config.vcpus = (unsigned int)atoi(argv[1]);
	rounds = atoi(argv[2]);
	if (ob_boot(&config) != 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		return 1;
	}
	for (int i = 0; i < rounds; i++) {
		measure(&host);
		measure(&library);
	}
	return ob_halt() == 0 ? 0 : 1;
}
