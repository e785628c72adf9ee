/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A word as a lock between host threads. Linux's spin locks are made of it (asm/spinlock.h), and
 * our own (core/lock.h).
 */
#ifndef _ASM_OUTBOARD_SPIN_H
#define _ASM_OUTBOARD_SPIN_H

#include <linux/compiler.h>
#include <linux/types.h>

/* Our own lock: core/lock.h */
struct ob_lock {
	u32 locked;
};

void ob_spin_wait(u32 *locked);

static __always_inline int ob_spin_try(u32 *locked)
{
	return !READ_ONCE(*locked) && !__atomic_exchange_n(locked, 1, __ATOMIC_ACQUIRE);
}

static __always_inline void ob_spin_lock(u32 *locked)
{
	if (unlikely(__atomic_exchange_n(locked, 1, __ATOMIC_ACQUIRE)))
		ob_spin_wait(locked);
}

static __always_inline void ob_spin_unlock(u32 *locked)
{
	__atomic_store_n(locked, 0, __ATOMIC_RELEASE);
}
#endif
