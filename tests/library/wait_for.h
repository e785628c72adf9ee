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

/*
 * Seconds after which a wait is a hang, as GUARD of tests/support/patience.py. No test depends on
 * speed.
 */
#define PATIENCE 300

/* Waits until the condition holds. */
#define WAIT_FOR(condition)                                                  \
	do {                                                                 \
		double end_ = seconds() + PATIENCE;                          \
		while (!(condition)) {                                       \
			CHECK(seconds() < end_ && "in time: " #condition);   \
			usleep(10000);                                       \
		}                                                            \
	} while (0)

#endif
