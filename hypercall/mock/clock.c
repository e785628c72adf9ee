// SPDX-License-Identifier: GPL-2.0-only
/* Clocks. */
#include <stdint.h>
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
