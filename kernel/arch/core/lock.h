/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A spin lock below everything else: taken where Linux's own lock may not be (it may preempt, trace or
 * call back into what is being locked), and by threads that hold no vCPU. So it is there with SMP=n as well.
 * Interrupts that arrive meanwhile wait for the next poll.
 */
#ifndef OUTBOARD_CORE_LOCK_H
#define OUTBOARD_CORE_LOCK_H

#include <linux/irqflags.h>
#include <asm/spin.h>

struct ob_lock {
	u32 locked;
};

/* Returns what ob_unlock_raw() puts back. */
static inline unsigned long ob_lock_raw(struct ob_lock *lock)
{
	unsigned long flags = arch_local_save_flags();

	ob_this_thread->irqs_off = 1;
	/* A signal's handler looks at it: the compiler must not move it below. */
	barrier();
	ob_spin_lock(&lock->locked);
	return flags;
}

static inline void ob_unlock_raw(struct ob_lock *lock, unsigned long flags)
{
	ob_spin_unlock(&lock->locked);
	barrier();
	ob_this_thread->irqs_off = flags;
}

#endif
