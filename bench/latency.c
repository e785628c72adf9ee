/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How late a sleep of one thread ends, and how long the first touch of a page takes, against the
 * host's own.
 *
 * Usage: latency ROUNDS. Two lines per round, host and library, in nanoseconds:
 *   nanosleep of 50 us, ppoll with a timeout of 200 us: the median time beyond what was asked
 *   the first write to a page of anonymous memory, the mean of PAGES
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <outboard/outboard.h>

#define SLEEPS 300
#define PAGES 2048L

typedef long system_call(long number, ...);

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *one, const void *two)
{
	double a = *(const double *)one, b = *(const double *)two;

	return (a > b) - (a < b);
}

static double late(system_call *call, long number, long asked)
{
	double taken[SLEEPS];

	for (int i = 0; i < SLEEPS; i++) {
		struct timespec time = { .tv_nsec = asked };	/* ppoll leaves the rest here */
		double begin = now();
		long result = number == SYS_nanosleep ? call(number, &time, NULL) :
						       call(number, NULL, 0L, &time, NULL, 8L);

		if (result)
			abort();
		taken[i] = now() - begin - (double)asked;
	}
	qsort(taken, SLEEPS, sizeof(*taken), compare);
	return taken[SLEEPS / 2];
}

static double first_touch(system_call *call)
{
	long page = sysconf(_SC_PAGESIZE), size = PAGES * page;
	long address = call(SYS_mmap, NULL, size, (long)PROT_READ | PROT_WRITE,
			    (long)MAP_PRIVATE | MAP_ANONYMOUS, -1L, 0L);
	volatile char *bytes = (volatile char *)address;
	double begin = now(), taken;

	if (address < 0 && address > -4096)
		abort();
	for (long i = 0; i < size; i += page)
		bytes[i] = 1;
	taken = now() - begin;
	if (call(SYS_munmap, address, size))
		abort();
	return taken / PAGES;
}

static void measure(system_call *call)
{
	printf("%f %f ", late(call, SYS_nanosleep, 50000), late(call, SYS_ppoll, 200000));
	printf("%f\n", first_touch(call));
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 2, .log_level = OB_LOG_DEFAULT,
	};

	if (count != 2)
		return 2;
	if (ob_boot(&config)) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		return 1;
	}
	for (int round = atoi(arguments[1]); round > 0; round--) {
		measure(syscall);
		measure(ob_syscall);
	}
	return ob_halt() ? 1 : 0;
}
