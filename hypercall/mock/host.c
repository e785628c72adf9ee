// SPDX-License-Identifier: GPL-2.0-only
/* Clocks, messages, random numbers, and the functions that tests call. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>

#include "internal.h"

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

uint64_t ob_host_clock_monotonic(struct ob_host *host)
{
	(void)host;
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t ob_host_clock_realtime(struct ob_host *host)
{
	(void)host;
	return read_clock(CLOCK_REALTIME);
}

uint64_t ob_host_clock_realtime_coarse(struct ob_host *host)
{
	return ob_host_clock_realtime(host);
}

void ob_host_console_write(struct ob_host *host, int level, const char *line, uint64_t length)
{
	if (level <= (int)host->options.log_level)
		fprintf(stderr, "%.*s\n", (int)length, line);
}

void ob_host_panic(struct ob_host *host, const char *message)
{
	(void)host;
	fprintf(stderr, "mock: panic: %s\n", message);
	abort();
}

int ob_host_random(struct ob_host *host, void *buffer, uint64_t size)
{
	(void)host;
	return getrandom(buffer, size, 0) == (ssize_t)size ? 0 : -EIO;
}

struct ob_host *mock_new(const char *image, const struct mock_options *options)
{
	struct ob_host *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	host->options = *options;
	host->disk = calloc(1, options->disk_size + 1);
	if (host->disk && mock_threads_begin(host) && mock_load(host, image))
		return host;
	mock_free(host);
	return NULL;
}

int mock_boot(struct ob_host *host)
{
	static uint16_t boots;
	struct ob_boot_parameters parameters = {
		.vcpus = host->options.vcpus,
		.memory = host->options.memory,
		.log_level = host->options.log_level,
		.boot = ++boots,
	};

	return host->upcalls->boot(&parameters);
}

long mock_call(struct ob_host *host, long number, long a, long b, long c, long d, long e)
{
	long result = host->upcalls->syscall(number, a, b, c, d, e, 0);

	/* Other clients and the timer must run, too, even if this client's calls never wait. */
	ob_host_thread_yield(host);
	return result;
}

uint64_t mock_client(struct ob_host *host, void (*fn)(void *arg), void *arg)
{
	uint64_t handle = 0;

	ob_host_thread_create(host, fn, arg, "client", &handle);
	return handle;
}

int mock_halt(struct ob_host *host)
{
	int halted = 0, error = host->upcalls->halt(&halted);

	if (halted)
		host->upcalls->free();
	return error;
}

void mock_free(struct ob_host *host)
{
	mock_threads_end(host);
	if (host->image && host->image != MAP_FAILED)
		munmap(host->image, host->image_size);
	free(host->disk);
	free(host);
}

char *mock_disk(struct ob_host *host)
{
	return host->disk;
}

const struct ob_upcalls *mock_upcalls(const struct ob_host *host)
{
	return host->upcalls;
}

const struct mock_counts *mock_counts(const struct ob_host *host)
{
	return &host->counts;
}
