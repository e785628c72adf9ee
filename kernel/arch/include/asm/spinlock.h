/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test-and-set spin locks. A queue would be fair, but the host may have
 * descheduled the thread that is next in it, and everybody else would wait.
 */
#ifndef _ASM_OUTBOARD_SPINLOCK_H
#define _ASM_OUTBOARD_SPINLOCK_H

#include <asm/spin.h>
#include <asm/spinlock_types.h>
#include <asm/processor.h>

static __always_inline int arch_spin_trylock(arch_spinlock_t *lock)
{
	return ob_spin_try(&lock->locked);
}

static __always_inline void arch_spin_lock(arch_spinlock_t *lock)
{
	ob_spin_lock(&lock->locked);
}

static __always_inline void arch_spin_unlock(arch_spinlock_t *lock)
{
	ob_spin_unlock(&lock->locked);
}

static __always_inline int arch_spin_value_unlocked(arch_spinlock_t lock)
{
	return !lock.locked;
}

static __always_inline int arch_spin_is_locked(arch_spinlock_t *lock)
{
	return READ_ONCE(lock->locked);
}

static __always_inline int arch_spin_is_contended(arch_spinlock_t *lock)
{
	return 0;
}

#include <asm/qrwlock.h>
#endif
