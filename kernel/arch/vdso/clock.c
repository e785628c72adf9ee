// SPDX-License-Identifier: GPL-2.0-only
/*
 * The code of [vdso]: the time, without a system call. It runs in programs.
 *
 * It computes what the kernel would (timekeeping.c of Linux): the host's monotonic clock, which
 * code of the platform reads, times a factor that clock_adjtime() may steer. So the two never
 * differ. It asks the kernel for all that it does not know: for other clocks, and when the kernel
 * has to compare its wall clock with the host's (core/time.c).
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "data.h"

#define NANOSECONDS 1000000000l

typedef int host_clock(int clock, struct timespec *time);

/* The page before this file: vdso.lds. */
extern const volatile struct ob_vdso_data ob_vdso_data __attribute__((visibility("hidden")));

static long call(long number, long first, long second)
{
	long result;

	asm volatile("syscall" : "=a" (result) : "a" (number), "D" (first), "S" (second) :
		     "rcx", "r11", "memory");
	return result;
}

/* Blocks for the moment in which another vCPU writes. */
static unsigned int begin(void)
{
	unsigned int sequence;

	while ((sequence = __atomic_load_n(&ob_vdso_data.sequence, __ATOMIC_ACQUIRE)) & 1)
		__builtin_ia32_pause();
	return sequence;
}

static int is_over(unsigned int sequence)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return ob_vdso_data.sequence == sequence;
}

/* The kernel's clock without steering. */
static unsigned long host_now(void)
{
	struct timespec time;

	((host_clock *)ob_vdso_data.host_clock)(CLOCK_MONOTONIC, &time);
	return time.tv_sec * NANOSECONDS + time.tv_nsec - ob_vdso_data.offset;
}

static void set(struct timespec *time, long seconds, long nanoseconds)
{
	for (; nanoseconds >= NANOSECONDS; nanoseconds -= NANOSECONDS)
		seconds++;
	for (; nanoseconds < 0; nanoseconds += NANOSECONDS)
		seconds--;
	time->tv_sec = seconds;
	time->tv_nsec = nanoseconds;
}

/* What to add to the wall clock. */
static void difference(int clock, struct timespec *add)
{
	*add = (struct timespec) {};
	switch (clock) {
	case CLOCK_TAI:
		add->tv_sec = ob_vdso_data.tai_offset;
		break;
	case CLOCK_BOOTTIME:
		add->tv_sec = ob_vdso_data.boot / NANOSECONDS;
		add->tv_nsec = ob_vdso_data.boot % NANOSECONDS;
		/* fallthrough */
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_COARSE:
		add->tv_sec += ob_vdso_data.monotonic_seconds;
		add->tv_nsec += ob_vdso_data.monotonic_nanoseconds;
	}
}

/* `now`: 0 for the time of the last tick. */
static void read_clock(int clock, unsigned long now, struct timespec *time)
{
	const volatile struct ob_vdso_clock *from =
		clock == CLOCK_MONOTONIC_RAW ? &ob_vdso_data.raw : &ob_vdso_data.wall;
	unsigned long last = ob_vdso_data.last;
	unsigned __int128 nanoseconds = from->nanoseconds;

	if (now > last)
		nanoseconds += (unsigned __int128)(now - last) * from->mult;
	difference(clock, time);
	now = nanoseconds >> from->shift;
	set(time, from->seconds + time->tv_sec + now / NANOSECONDS,
	    now % NANOSECONDS + time->tv_nsec);
}

/* Whether the kernel has to be asked for the wall clock. */
static int is_due(unsigned long now)
{
	return now >= ob_vdso_data.compare_at;
}

static int fine_clock(int clock, struct timespec *time)
{
	int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_TAI;
	struct timespec read;
	unsigned int sequence;
	unsigned long now;

	do {
		sequence = begin();
		now = host_now();
		if (is_wall && is_due(now))
			return 0;
		read_clock(clock, now, &read);
	} while (!is_over(sequence));
	*time = read;
	return 1;
}

static int coarse_clock(int clock, struct timespec *time)
{
	struct timespec read;
	unsigned int sequence;

	if (clock == CLOCK_REALTIME_COARSE && !ob_vdso_data.wall_is_own) {
		if (is_due(host_now()))
			return 0;
		((host_clock *)ob_vdso_data.host_clock)(clock, time);
		return 1;
	}
	do {
		sequence = begin();
		read_clock(clock, 0, &read);
	} while (!is_over(sequence));
	*time = read;
	return 1;
}

/* The names that Linux has for them, which libraries look for. */
int __vdso_clock_gettime(int clock, struct timespec *time);
int __vdso_clock_getres(int clock, struct timespec *resolution);
int __vdso_gettimeofday(struct timeval *time, struct timezone *zone);
long __vdso_time(long *time);

int __vdso_clock_gettime(int clock, struct timespec *time)
{
	int is_known = 0;

	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_BOOTTIME:
	case CLOCK_TAI:
		is_known = fine_clock(clock, time);
		break;
	case CLOCK_REALTIME_COARSE:
	case CLOCK_MONOTONIC_COARSE:
		is_known = coarse_clock(clock, time);
		break;
	}
	return is_known ? 0 : call(SYS_clock_gettime, clock, (long)time);
}

int __vdso_clock_getres(int clock, struct timespec *resolution)
{
	unsigned int sequence, fine, coarse;

	do {
		sequence = begin();
		fine = ob_vdso_data.resolution;
		coarse = ob_vdso_data.coarse_resolution;
	} while (!is_over(sequence));
	switch (clock) {
	case CLOCK_REALTIME:
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_BOOTTIME:
	case CLOCK_TAI:
		/* Just after the boot the kernel may have finer timers before the page says so. */
		if (fine == coarse)
			break;
		if (resolution)
			set(resolution, 0, fine);
		return 0;
	case CLOCK_REALTIME_COARSE:
	case CLOCK_MONOTONIC_COARSE:
		if (resolution)
			set(resolution, 0, coarse);
		return 0;
	}
	return call(SYS_clock_getres, clock, (long)resolution);
}

int __vdso_gettimeofday(struct timeval *time, struct timezone *zone)
{
	struct timespec now;

	if (zone || !time || !fine_clock(CLOCK_REALTIME, &now))
		return call(SYS_gettimeofday, (long)time, (long)zone);
	time->tv_sec = now.tv_sec;
	time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

long __vdso_time(long *time)
{
	long seconds;

	if (is_due(host_now()))
		return call(SYS_time, (long)time, 0);
	seconds = ob_vdso_data.wall.seconds;
	if (time)
		*time = seconds;
	return seconds;
}
