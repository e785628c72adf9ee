/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A spin lock below everything else. It serves where Linux's own may not be taken, because that may
 * preempt, trace, or call back into the locked code; and threads that hold no vCPU. So SMP=n has
 * it, too. Interrupts that arrive under the lock wait for the next poll.
 */
#ifndef OUTBOARD_CORE_LOCK_H
#define OUTBOARD_CORE_LOCK_H

#include <linux/irqflags.h>
#include <asm/spin.h>

/* Returns the flags for ob_unlock_raw(). */
static inline unsigned long ob_lock_raw(struct ob_lock *lock)
{
	unsigned long flags = arch_local_save_flags();

	ob_this_thread->irqs_off = 1;
	/* A signal handler of ours looks at irqs_off: the compiler must not move the store. */
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
