// SPDX-License-Identifier: GPL-2.0-only
/* The functions that tests call. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"

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
