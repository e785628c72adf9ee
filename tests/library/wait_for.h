/* SPDX-License-Identifier: GPL-2.0-only */
/* Waiting for what another thread, or the kernel, does. */
#ifndef OUTBOARD_TESTS_WAIT_FOR_H
#define OUTBOARD_TESTS_WAIT_FOR_H

#include <time.h>
#include <unistd.h>

#include "check.h"

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Waits until the condition holds, at most so many seconds. */
#define WAIT_FOR(condition, most)                                            \
	do {                                                                 \
		double end_ = seconds() + (most);                            \
		while (!(condition)) {                                       \
			CHECK(seconds() < end_ && "in time: " #condition);   \
			usleep(10000);                                       \
		}                                                            \
	} while (0)

#endif
