/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Waits for what may never come: a thread that is stopped, stuck, or busy for ever. The kernel,
 * lib/ and the platform count the time of such waits by the rule here.
 *
 * A process may be stopped as a whole, as by SIGSTOP, a frozen cgroup or a paused virtual machine.
 * Then what the waiter waits for could not come either. So the waiter looks again after
 * OB_PATIENCE_STEP, and each look counts no more than that: only time in which the waiter itself
 * got the processor counts.
 */
#ifndef OUTBOARD_PATIENCE_H
#define OUTBOARD_PATIENCE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
#endif

/*
 * How long boot, halt, and the end of a device wait. After that, what they waited for is left
 * behind. In nanoseconds.
 */
#define OB_PATIENCE (5ull * 1000 * 1000 * 1000)

/* A waiter waits no longer at a time. In nanoseconds. */
#define OB_PATIENCE_STEP (100ull * 1000 * 1000)

struct ob_patience {
	uint64_t last;		/* the time of the last look */
	uint64_t left;
};

/* `now`: of a monotonic clock in nanoseconds, as in all looks. */
static inline struct ob_patience ob_patience_of(uint64_t now, uint64_t nanoseconds)
{
	return (struct ob_patience){ now, nanoseconds };
}

/* A look: is the wait over? */
static inline bool ob_patience_ends(struct ob_patience *patience, uint64_t now)
{
	uint64_t passed = now - patience->last;

	if (passed > OB_PATIENCE_STEP)
		passed = OB_PATIENCE_STEP;
	patience->left -= passed < patience->left ? passed : patience->left;
	patience->last = now;
	return !patience->left;
}

#endif
