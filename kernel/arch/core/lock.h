/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A spin lock below everything else: taken where Linux's own lock may not be (it may preempt, trace or
 * call back into what is being locked). Interrupts that arrive meanwhile wait for the next poll.
 */
#ifndef OUTBOARD_CORE_LOCK_H
#define OUTBOARD_CORE_LOCK_H

#include <linux/irqflags.h>
#include <linux/spinlock.h>

/* Returns what ob_unlock_raw() puts back. */
static inline unsigned long ob_lock_raw(arch_spinlock_t *lock)
{
	unsigned long flags = arch_local_save_flags();

	ob_this_thread->irqs_off = 1;
	arch_spin_lock(lock);
	return flags;
}

static inline void ob_unlock_raw(arch_spinlock_t *lock, unsigned long flags)
{
	arch_spin_unlock(lock);
	ob_this_thread->irqs_off = flags;
}

#endif
