/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The baton: the word on which a host thread waits for a vCPU.
 *
 * Each client's task has one, each carrier, and each thread that is being adopted. Any thread may
 * set PASSED and KICKED; only the owner clears bits, and only the owner waits.
 *
 *   bit      set by                                  cleared by the owner in
 *   PASSED   ob_baton_pass(); ob_idle_end(), in a    ob_baton_wait()
 *            carrier's
 *   KICKED   ob_idle_end(), in a lent thread's       ob_idle_watch(), which knows that it comes
 *   AWAITED  the owner, before it sleeps             the same, with the bit that it takes; alone in
 *                                                    ob_idle_await(), before the owner raises its
 *                                                    own timer interrupt
 *
 * Invariant: a bit that is set stays until the owner takes it. So no hand-over is lost, whether the
 * owner sleeps, spins or runs, and one wake-up suffices for each.
 *
 * The owner sets AWAITED by a compare-and-swap of the word that it looked at, and the host compares
 * again before it sleeps. Setting a bit returns the old word: it has AWAITED if a wake-up is
 * needed. A thread that wakes for no reason looks at its baton, and sleeps again.
 */
#ifndef OUTBOARD_CORE_BATON_H
#define OUTBOARD_CORE_BATON_H

#include <linux/types.h>
#include <asm/host.h>
#include "delay.h"

/* Bits of a baton. */
enum ob_baton {
	/*
	 * The owner's task was switched to, a carrier has a vCPU, the adoption failed, or the
	 * machine stops.
	 */
	OB_BATON_PASSED = 1,
	OB_BATON_KICKED = 2,	/* the idle vCPU that the owner watches has a bit pending */
	OB_BATON_AWAITED = 4,	/* the owner sleeps on the word */
};

void ob_wake_missed(const u32 *word);
void ob_baton_pass(u32 *baton);
void ob_baton_wait(u32 *baton);
void ob_baton_take(u32 *baton, u32 bit);
void ob_baton_doze(u32 *baton, u32 seen, u64 timeout);

/* Returns the baton if its owner sleeps on it, for ob_wake(); else NULL. */
static inline u32 *ob_baton_set(u32 *baton, u32 bit)
{
	ob_delay_point();
	return __atomic_fetch_or(baton, bit, __ATOMIC_SEQ_CST) & OB_BATON_AWAITED ? baton : NULL;
}

/* `word`: a baton, or the word of a service thread; NULL: no thread sleeps. */
static inline void ob_wake(u32 *word)
{
	if (word && !ob_host_wake(ob_host, word, 1))
		ob_wake_missed(word);
}

#endif
