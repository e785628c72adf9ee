/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When a thread that receives should spin before it sleeps.
 *
 * A wake-up by the host takes longer than many answers. But if other threads need the processor,
 * maybe the one that would answer, spinning only delays them. Then most spins are in vain, or the
 * host takes the processor away for long. So after a spin in vain the thread spins again only after
 * a pause, which doubles each time, and halves after a useful spin.
 */
#ifndef OUTBOARD_DEVICES_NET_SPIN_H
#define OUTBOARD_DEVICES_NET_SPIN_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define OB_SPIN_NSEC 20000ull
#define OB_SPIN_PAUSE_LEAST 1000000ull
#define OB_SPIN_PAUSE_MOST 1000000000ull

struct ob_spin {
	uint64_t from;		/* when the thread may spin again */
	uint64_t pause;
	uint64_t end, last;	/* of the current spin; when it looked last */
};

static inline uint64_t ob_spin_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

/* False: do not spin now. */
static inline bool ob_spin_begin(struct ob_spin *spin)
{
	spin->last = ob_spin_now();
	spin->end = spin->last + OB_SPIN_NSEC;
	return spin->last >= spin->from;
}

/* After each look at what the thread waits for. True: look again. */
static inline bool ob_spin_goes_on(struct ob_spin *spin, bool found)
{
	uint64_t before = spin->last;

	spin->last = ob_spin_now();
	if (!found && spin->last < spin->end)
		return true;
	if (found && spin->last - before < OB_SPIN_NSEC) {
		spin->pause /= 2;
		return false;
	}
	spin->pause = spin->pause < OB_SPIN_PAUSE_LEAST ? OB_SPIN_PAUSE_LEAST : spin->pause * 2;
	if (spin->pause > OB_SPIN_PAUSE_MOST)
		spin->pause = OB_SPIN_PAUSE_MOST;
	spin->from = spin->last + spin->pause;
	return false;
}

#endif
