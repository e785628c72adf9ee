/* SPDX-License-Identifier: GPL-2.0-only */
/* The time since some moment in the past, for time limits. */
#ifndef OUTBOARD_LIB_CLOCK_H
#define OUTBOARD_LIB_CLOCK_H

#include <stdint.h>
#include <time.h>

/* A time that never comes. */
#define OB_NEVER UINT64_MAX

static inline uint64_t ob_milliseconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

#endif
