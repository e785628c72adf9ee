/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page [vvar], which the kernel (core/vdso.c) writes and programs read. It is just before the
 * page of code (clock.c). Times are in nanoseconds; those of the host's clock are without `offset`.
 */
#ifndef OUTBOARD_VDSO_DATA_H
#define OUTBOARD_VDSO_DATA_H

/* Counts from the moment `last` of the host's clock on. */
struct ob_vdso_clock {
	unsigned long seconds;
	unsigned long nanoseconds;	/* << shift */
	unsigned int mult, shift;	/* of a nanosecond of the host's clock: mult >> shift */
};

struct ob_vdso_data {
	/* These two are constant. */
	unsigned long host_clock;	/* a function: ob_host_space_clock() */
	unsigned long offset;		/* of the host's monotonic clock to that of the kernel */

	/* These two are written alone. */
	unsigned long compare_at;	/* from then on a call has to compare the wall clock */
	unsigned long wall_is_own;	/* the wall clock is not that of the host */

	/* The rest: it is odd while they are written, and another number after that. */
	unsigned int sequence;
	int tai_offset;
	unsigned long last;		/* moment of the host's clock */
	struct ob_vdso_clock wall, raw;
	long monotonic_seconds, monotonic_nanoseconds;	/* CLOCK_MONOTONIC minus the wall clock */
	long boot;			/* CLOCK_BOOTTIME minus CLOCK_MONOTONIC */
	unsigned int resolution, coarse_resolution;
};

#endif
