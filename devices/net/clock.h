/* SPDX-License-Identifier: GPL-2.0-only */
/* Network: the time of a clock of the host, in nanoseconds. */
#ifndef OUTBOARD_DEVICES_NET_CLOCK_H
#define OUTBOARD_DEVICES_NET_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t ob_net_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

#endif
