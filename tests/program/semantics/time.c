// SPDX-License-Identifier: GPL-2.0-only
/* Time: tasks that compute, stand still, have a share, or end. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "semantics.h"

static volatile unsigned long *counts;

static pid_t start_counting(int which, int nice_value)
{
	pid_t child = fork_or_die();

	if (child)
		return child;
	CHECK(!setpriority(PRIO_PROCESS, 0, nice_value));
	for (;;)
		counts[which * 64]++;
}

static void wait_until_counts(int which)
{
	unsigned long before = counts[which * 64];

	while (counts[which * 64] == before)
		usleep(500);
}

static void stop(pid_t child)
{
	int status;

	CHECK(!kill(child, SIGSTOP) && waitpid(child, &status, WUNTRACED) == child);
	CHECK(WIFSTOPPED(status));
}

void stopped(void)
{
	unsigned long before;
	pid_t child;

	counts = map(PAGE, MAP_SHARED);
	child = start_counting(0, 0);
	for (long i = 0; i < rounds(10, 500); i++) {
		wait_until_counts(0);
		stop(child);
		before = counts[0];
		usleep(2000);
		CHECK_EQUAL(counts[0], before);
		CHECK(!kill(child, SIGCONT));
	}
	stop(child);
	/* A process that stands still ends, too. */
	CHECK(!kill(child, SIGKILL));
	wait_for_signal(child, SIGKILL);
}

/* On one processor: a nice one gets little, but something. */
void niceness(void)
{
	unsigned long before, nice_before;
	pid_t children[2];
	cpu_set_t one;
	int tries = 0;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
	counts = map(PAGE, MAP_SHARED);
	children[0] = start_counting(0, 0);
	children[1] = start_counting(1, 19);
	wait_until_counts(0);
	wait_until_counts(1);
	before = counts[0];
	nice_before = counts[64];
	/* Shares are of a longer time. */
	while (counts[0] - before < 1000000 ||
	       counts[0] - before < 4 * (counts[64] - nice_before)) {
		CHECK(tries++ < 60000);
		usleep(1000);
	}
	wait_until_counts(1);
	for (int i = 0; i < 2; i++) {
		CHECK(!kill(children[i], SIGKILL));
		wait_for_signal(children[i], SIGKILL);
	}
}

static double processor_time(clockid_t clock)
{
	struct timespec time;

	CHECK(!clock_gettime(clock, &time));
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void compute_for(double seconds)
{
	double end = processor_time(CLOCK_PROCESS_CPUTIME_ID) + seconds;

	while (processor_time(CLOCK_PROCESS_CPUTIME_ID) < end)
		for (volatile int i = 0; i < 100000; i = i + 1)
			;
}

static void check_limit(void)
{
	struct rlimit limit = { 1, 2 };
	pid_t child = fork_or_die();

	if (!child) {
		CHECK(!setrlimit(RLIMIT_CPU, &limit));
		for (;;)
			;
	}
	wait_for_signal(child, SIGXCPU);
}

void cpu_time(void)
{
	struct itimerval soon = { .it_value = { 0, 20000 } };
	struct rusage used;
	pid_t child = fork_or_die();
	clockid_t clock;

	if (!child) {
		compute_for(0.05);
		_exit(0);
	}
	CHECK(!clock_getcpuclockid(child, &clock));
	wait_for_success(child);
	CHECK(!getrusage(RUSAGE_CHILDREN, &used));
	CHECK(used.ru_utime.tv_sec * 1000000 + used.ru_utime.tv_usec +
	      used.ru_stime.tv_sec * 1000000 + used.ru_stime.tv_usec > 40000);
	CHECK(used.ru_minflt > 0);
	set_handler(SIGVTALRM, count_signal, 0);
	set_handler(SIGPROF, count_signal, 0);
	CHECK(!setitimer(ITIMER_VIRTUAL, &soon, NULL));
	while (!counted)
		;
	CHECK(!setitimer(ITIMER_PROF, &soon, NULL));
	while (counted < 2)
		;
	/* A second is the least limit. */
	if (rounds(0, 1))
		check_limit();
}

static void __attribute__((noreturn)) jump_on_the_spot(void)
{
	__asm__ volatile("1: jmp 1b");
	__builtin_unreachable();
}

/* Many more than processors, none of which makes a call. */
void endless_loops(void)
{
	pid_t children[10];

	for (int i = 0; i < 10; i++) {
		children[i] = fork_or_die();
		if (!children[i])
			jump_on_the_spot();
	}
	usleep(20000);
	for (int i = 0; i < 10; i++)
		CHECK(!kill(children[i], i % 2 ? SIGKILL : SIGTERM));
	for (int i = 0; i < 10; i++)
		wait_for_signal(children[i], i % 2 ? SIGKILL : SIGTERM);
}

static volatile int last_value;

static void on_timer(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	CHECK(info->si_code == SI_TIMER);
	last_value = info->si_value.sival_int;
	counted = counted + 1;
}

static void check_clocks(void)
{
	static const clockid_t clocks[] = {
		CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW,
		CLOCK_MONOTONIC_COARSE, CLOCK_TAI, CLOCK_THREAD_CPUTIME_ID,
	};
	struct tms times_of;

	for (unsigned int i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		double before = processor_time(clocks[i]);

		for (int j = 0; j < 100; j++) {
			double after = processor_time(clocks[i]);

			CHECK(after >= before);
			before = after;
		}
	}
	CHECK(times(&times_of) != -1 && time(NULL) > 1700000000);
}

void timers(void)
{
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN,
		.sigev_value.sival_int = 12,
	};
	struct itimerspec often = { { 0, 1000000 }, { 0, 1000000 } };
	timer_t timer;

	set_handler(SIGRTMIN, on_timer, SA_RESTART);
	CHECK(!timer_create(CLOCK_MONOTONIC, &event, &timer));
	CHECK(!timer_settime(timer, 0, &often, NULL));
	while (counted < 10)
		;
	CHECK(!timer_delete(timer) && last_value == 12);
	counted = 0;
	CHECK(!timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer));
	CHECK(!timer_settime(timer, 0, &often, NULL));
	while (counted < 2)
		;
	CHECK(!timer_delete(timer));
	check_clocks();
}
