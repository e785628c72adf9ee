// SPDX-License-Identifier: GPL-2.0-only
/* How a host thread waits for another one without sleeping. */
#include <linux/export.h>
#include <linux/sched.h>
#include <asm/spin.h>
#include "vcpu.h"

/* A spinner looks this often before it lets others run. */
#define OB_SPINS 128

/* How often a spinner looks at a lock before it lets others run, and the most that it pauses before a look. */
#define OB_LOCK_LOOKS 6
#define OB_PAUSES_MOST 32u

/*
 * Whoever waits for another host thread spins first: what it waits for often comes sooner than the
 * host could put it to sleep and wake it. But it may be this very spinning that keeps the other from its core. So after
 * it was in vain, the thread does not try again for a while, which gets longer each time. There are never more spinners than cores.
 */
#define OB_PATIENCE 20000		/* nanoseconds */
#define OB_RELUCTANCE_MOST 255u

/* Spins until the word has one of the bits, or until `end`. Returns whether it has. */
static bool ob_spin_until(const u32 *word, u32 bits, u64 end)
{
	unsigned int i;

	do {
		for (i = 0; i < 8; i++) {
			if (READ_ONCE(*word) & bits)
				return true;
			asm volatile("pause" ::: "memory");
		}
	} while (ob_host_clock_monotonic(ob_host) < end);
	return false;
}

void ob_spin_for_bits(const u32 *word, u32 bits)
{
	struct ob_spinning __ob_tls *mine = &ob_this_thread->spinning;

	if (mine->waits_to_skip) {
		mine->waits_to_skip--;
		return;
	}
	if (atomic_inc_return(&ob_machine.spinners) <= ob_machine.spinners_max) {
		if (ob_spin_until(word, bits, ob_host_clock_monotonic(ob_host) + OB_PATIENCE))
			mine->reluctance = 0;
		else
			mine->reluctance = min((u32)mine->reluctance * 2 + 1, OB_RELUCTANCE_MOST);
		mine->waits_to_skip = mine->reluctance;
	}
	atomic_dec(&ob_machine.spinners);
}

/*
 * Of a loop that waits for another CPU: it may be that which waits for this very thread. A thread
 * without a vCPU (core/lock.h) owes nobody a wake-up and takes no interrupts. When the machine has
 * stopped, a thread that carries does not come back: the other one may have left for good.
 */
static void ob_wait_step(void)
{
	ob_panic_check();
	if (unlikely(!ob_this_vcpu()))
		return;
	if (unlikely(ob_this_vcpu()->deferred_wake))
		ob_wake_deferred();
	if (!ob_this_thread->irqs_off && ob_pending())
		ob_interrupts_poll();
	if (unlikely(READ_ONCE(ob_machine.stopping)) && ob_is_on_coroutine())
		ob_carrier_leave();
}

/* A poll point of every loop that waits for another CPU (V5). */
void ob_cpu_relax(void)
{
	asm volatile("pause" ::: "memory");
	ob_wait_step();
	if (!(++ob_this_thread->spinning.spins % OB_SPINS))
		ob_host_thread_yield(ob_host);
}
EXPORT_SYMBOL(ob_cpu_relax);

static void ob_pause(u32 times)
{
	while (times--)
		asm volatile("pause" ::: "memory");
}

/*
 * Each look at a lock that others use takes its cache line from them, and they take it back, which costs more than what they do
 * under the lock. So the looks become rare, and whoever has the line gets something done meanwhile. A thread that meets others
 * again and again begins nearly where it has ended the last time. Not inlined: the thread may be another one at the end.
 */
static noinline u32 ob_pauses_begin(void)
{
	return ob_this_thread->spinning.pauses - ob_this_thread->spinning.pauses / 8 ?: 1;
}

static noinline void ob_pauses_end(u32 pauses)
{
	ob_this_thread->spinning.pauses = pauses;
}

/* Until `locked` is 1, and it was the caller who made it so. */
void ob_spin_wait(u32 *locked)
{
	u32 looks, pauses = ob_pauses_begin();

	for (;;) {
		for (looks = 0; looks < OB_LOCK_LOOKS; looks++) {
			ob_pause(pauses);
			if (ob_spin_try(locked)) {
				ob_pauses_end(pauses);
				return;
			}
			pauses = min(pauses * 2, OB_PAUSES_MOST);
		}
		/* Whoever has the lock may wait for an answer of ours, or have stopped with it. */
		ob_wait_step();
		ob_host_thread_yield(ob_host);
	}
}
EXPORT_SYMBOL(ob_spin_wait);
