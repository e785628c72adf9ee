// SPDX-License-Identifier: GPL-2.0-only
/*
 * An ordinary Linux program, as program_inside.c: program_calls_inside CASE. Its cases concern what
 * the kernel does for all of a program's threads, or for all programs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* ---- reboot --------------------------------------------------------------- */

static void restart(void)
{
	reboot(RB_AUTOBOOT);
	CHECK(!"the program goes on");
}

static void power_off(void)
{
	CHECK(reboot(0x1234) == -1 && errno == EINVAL);
	reboot(RB_POWER_OFF);
	CHECK(!"the program goes on");
}

/* ---- membarrier ----------------------------------------------------------- */

#define ROUNDS 5000

static int barrier(int command)
{
	return (int)syscall(SYS_membarrier, command, 0, 0);
}

/* Two stores and two loads that cross: one of the loads sees the other side's store. */
static struct {
	_Alignas(64) atomic_int round;
	_Alignas(64) volatile int fast, slow;
	_Alignas(64) volatile int fast_saw;
	_Alignas(64) atomic_int done;
} cross;

/* The other thread may need this one's processor. */
static void wait_for_round(atomic_int *word, int round)
{
	for (int spins = 0; atomic_load(word) < round; spins++)
		if (spins > 10000)
			sched_yield();
}

/* The fast side has no barrier that the processor knows. */
static void *fast_side(void *unused)
{
	(void)unused;
	for (int round = 1; round <= ROUNDS; round++) {
		wait_for_round(&cross.round, round);
		cross.fast = 1;
		atomic_signal_fence(memory_order_seq_cst);
		cross.fast_saw = cross.slow;
		atomic_store(&cross.done, round);
	}
	return NULL;
}

static void slow_side(int command)
{
	for (int round = 1; round <= ROUNDS; round++) {
		cross.fast = cross.slow = 0;
		atomic_store(&cross.round, round);
		for (volatile int i = 0; i < round % 397; i = i + 1)
			;
		cross.slow = 1;
		CHECK(!barrier(command));
		const int slow_saw = cross.fast;

		wait_for_round(&cross.done, round);
		CHECK(slow_saw || cross.fast_saw);
	}
}

static void check_order(int command)
{
	pthread_t thread;

	atomic_store(&cross.round, 0);
	atomic_store(&cross.done, 0);
	CHECK(!pthread_create(&thread, NULL, fast_side, NULL));
	slow_side(command);
	CHECK(!pthread_join(thread, NULL));
}

static void barriers(void)
{
	const int wanted = MEMBARRIER_CMD_GLOBAL | MEMBARRIER_CMD_PRIVATE_EXPEDITED |
			   MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED |
			   MEMBARRIER_CMD_GLOBAL_EXPEDITED;

	CHECK_EQUAL(barrier(MEMBARRIER_CMD_QUERY) & wanted, wanted);
	CHECK(barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == -1 && errno == EPERM);
	CHECK(barrier(1 << 20) == -1 && errno == EINVAL);
	CHECK(!barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
	check_order(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	CHECK(!barrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED));
	check_order(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
	CHECK(!barrier(MEMBARRIER_CMD_GLOBAL));
}

/* ---- clocks --------------------------------------------------------------- */

/* The C library asks [vdso]; call() asks the kernel. */
static const clockid_t clocks_known[] = {
	CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_TAI,
	CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE,
};

#define CLOCKS (sizeof(clocks_known) / sizeof(clocks_known[0]))

static long nanoseconds(const struct timespec *time)
{
	CHECK(time->tv_nsec >= 0 && time->tv_nsec < 1000000000);
	return time->tv_sec * 1000000000 + time->tv_nsec;
}

static long by_library(clockid_t clock)
{
	struct timespec time;

	CHECK(!clock_gettime(clock, &time));
	return nanoseconds(&time);
}

static long by_call(clockid_t clock)
{
	struct timespec time;

	CHECK(!syscall(SYS_clock_gettime, clock, &time));
	return nanoseconds(&time);
}

/* None of the two ways runs ahead of the other. */
static void check_ways(int rounds)
{
	for (size_t i = 0; i < CLOCKS; i++) {
		long last = by_call(clocks_known[i]);

		for (int round = 0; round < rounds; round++) {
			long now = round % 2 ? by_call(clocks_known[i]) :
					       by_library(clocks_known[i]);

			if (now < last)
				fprintf(stderr, "clock %d: %ld after %ld\n", clocks_known[i], now,
					last);
			CHECK(now >= last);
			last = now;
		}
	}
}

static long resolution_by_call(clockid_t clock)
{
	struct timespec resolution;

	CHECK(!syscall(SYS_clock_getres, clock, &resolution));
	return nanoseconds(&resolution);
}

static void check_other_functions(void)
{
	struct timespec library;
	long before = by_call(CLOCK_REALTIME) / 1000, seconds = syscall(SYS_time, NULL), now;
	struct timeval day;

	CHECK(!gettimeofday(&day, NULL));
	now = day.tv_sec * 1000000 + day.tv_usec;
	CHECK(before <= now && now <= by_call(CLOCK_REALTIME) / 1000);
	now = time(NULL);
	CHECK(seconds <= now && now <= syscall(SYS_time, NULL));
	for (size_t i = 0; i < CLOCKS; i++) {
		long earlier = resolution_by_call(clocks_known[i]), seen;

		CHECK(!clock_getres(clocks_known[i], &library));
		/* It becomes finer at the first tick of a kernel. */
		seen = nanoseconds(&library);
		CHECK(seen == earlier || seen == resolution_by_call(clocks_known[i]));
	}
	CHECK(clock_gettime(99, &library) == -1 && errno == EINVAL);
}

static void check_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long start = 0;
	char line[512], found = 0;

	CHECK(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (strstr(line, "[vvar"))
			CHECK(strstr(line, " r--p "));
		if (strstr(line, "[vvar]"))
			found |= 1;
		if (strstr(line, " r-xp ") && strstr(line, "[vdso]") &&
		    sscanf(line, "%lx-", &start) == 1)
			found |= 2;
	}
	CHECK_EQUAL(found, 3);
	CHECK_EQUAL(start, getauxval(AT_SYSINFO_EHDR));
	fclose(maps);
}

static atomic_long latest;

/* A thread does not see a time before one that another thread has seen. */
static void *follow(void *unused)
{
	(void)unused;
	for (int i = 0; i < 20000; i++) {
		long seen = atomic_load(&latest), now = by_library(CLOCK_MONOTONIC);

		CHECK(now >= seen);
		while (seen < now && !atomic_compare_exchange_weak(&latest, &seen, now))
			;
	}
	return NULL;
}

static volatile long seen_by_handler;

static void note_time(int unused)
{
	(void)unused;
	seen_by_handler = by_library(CLOCK_MONOTONIC);
}

/* Signals come while the program computes the time. */
static void check_signals(void)
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };

	CHECK(signal(SIGALRM, note_time) != SIG_ERR);
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (int i = 0; i < 100; i++) {
		long before = by_library(CLOCK_MONOTONIC);

		seen_by_handler = before;

		while (seen_by_handler == before)
			CHECK(by_library(CLOCK_MONOTONIC) >= before);
		CHECK(seen_by_handler > before);
	}
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
}

/* A process that may make no such call reads the clocks. */
static void check_no_call(void)
{
	int status = -1;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
		for (int i = 0; i < 10000; i++)
			for (clockid_t clock = CLOCK_MONOTONIC; clock <= CLOCK_BOOTTIME; clock++)
				if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW ||
				    clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_BOOTTIME)
					by_library(clock);
		syscall(SYS_exit, 0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_EQUAL(status, 0);
}

static void clocks(void)
{
	pthread_t threads[3];
	int status = -1;
	pid_t child;

	check_mappings();
	check_no_call();
	check_ways(500);
	check_other_functions();
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, follow, NULL));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(threads[i], NULL));
	check_signals();
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		check_ways(20);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_EQUAL(status, 0);
}

/* Root's clock is set by an hour, steered as fast as can be, and moved. Not for a host. */
static void clocks_set(void)
{
	struct timex steer = {
		.modes = ADJ_FREQUENCY | ADJ_TICK, .freq = 500 << 16, .tick = 11000,
	};
	struct timex move = { .modes = ADJ_SETOFFSET, .time = { .tv_sec = 1800 } };
	struct timespec later;
	long before = by_library(CLOCK_REALTIME), monotonic = by_library(CLOCK_MONOTONIC);

	CHECK(!clock_gettime(CLOCK_REALTIME, &later));
	later.tv_sec += 3600;
	CHECK(!clock_settime(CLOCK_REALTIME, &later));
	CHECK(by_library(CLOCK_REALTIME) - before >= 3600 * 1000000000l);
	check_ways(50);
	CHECK(adjtimex(&steer) >= 0);
	check_ways(500);
	CHECK(clock_adjtime(CLOCK_REALTIME, &move) >= 0);
	CHECK(by_library(CLOCK_REALTIME) - before >= 5400 * 1000000000l);
	check_ways(50);
	CHECK(by_library(CLOCK_MONOTONIC) - monotonic < 3600 * 1000000000l);
	later.tv_sec -= 7200;
	CHECK(!clock_settime(CLOCK_REALTIME, &later));
	CHECK(by_library(CLOCK_REALTIME) < before);
	check_ways(50);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "restart", restart }, { "power_off", power_off }, { "barriers", barriers },
	{ "clocks", clocks }, { "clocks_set", clocks_set },
};

int main(int argc, char **argv)
{
	CHECK(argc > 1);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]))
			continue;
		cases[i].run();
		return 0;
	}
	fprintf(stderr, "no case %s\n", argv[1]);
	return 2;
}
