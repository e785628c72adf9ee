/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Checks of the state tables, in a kernel that checks itself (DEBUG=1): check.c. Each function
 * panics if its table has no such change, or if other fields do not agree. In other kernels the
 * functions do nothing.
 */
#ifndef OUTBOARD_CORE_CHECK_H
#define OUTBOARD_CORE_CHECK_H

#include <linux/types.h>

struct ob_vcpu;

/* The rows of idle.c. */
enum ob_idle {
	OB_IDLE_BUSY,
	OB_IDLE_CARRIER,
	OB_IDLE_LENT,
	OB_IDLE_KICKED,
};

/*
 *   function           the table   called
 *   ob_vcpu_check()    vcpu.h      after a change to HELD or INTERRUPT, before any other one;
 *                                  `from` and `to` are words of `state`
 *   ob_idle_check()    idle.c      before a change from BUSY and before KICKED, after any other one
 *   ob_away_check()    evict.c     before or after; `from` and `to` are the task's word `away`
 */
#ifdef CONFIG_OUTBOARD_CHECKS
void ob_vcpu_check(struct ob_vcpu *vcpu, unsigned long from, unsigned long to);
void ob_idle_check(struct ob_vcpu *vcpu, enum ob_idle from, enum ob_idle to);
void ob_away_check(u32 from, u32 to);
#else
static __always_inline void ob_vcpu_check(struct ob_vcpu *vcpu, unsigned long from,
					  unsigned long to)
{
}

static __always_inline void ob_idle_check(struct ob_vcpu *vcpu, enum ob_idle from, enum ob_idle to)
{
}

static __always_inline void ob_away_check(u32 from, u32 to)
{
}
#endif

#endif
