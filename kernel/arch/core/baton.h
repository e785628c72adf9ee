/* SPDX-License-Identifier: GPL-2.0-only */
/* The baton, by which a vCPU goes from one host thread to another: baton.c. */
#ifndef OUTBOARD_CORE_BATON_H
#define OUTBOARD_CORE_BATON_H

#include <linux/types.h>
#include <asm/host.h>
#include "delay.h"

/* Bits of a baton. */
enum ob_baton {
	OB_BATON_PASSED = 1,		/* a vCPU is the thread's, for its own task */
	OB_BATON_KICKED = 2,		/* the idle vCPU that the thread looks after has something to do */
	OB_BATON_AWAITED = 4,		/* the thread sleeps on the word */
};

void ob_wake_missed(const u32 *word);
void ob_baton_take(u32 *baton, u32 bit);
void ob_baton_doze(u32 *baton, u32 seen, u64 timeout);

/* Returns the baton if a thread sleeps on it and has to be woken, else NULL. */
static inline u32 *ob_baton_set(u32 *baton, u32 bit)
{
	ob_delay_point();
	return __atomic_fetch_or(baton, bit, __ATOMIC_SEQ_CST) & OB_BATON_AWAITED ? baton : NULL;
}

static inline void ob_wake(u32 *word)
{
	if (word && !ob_host_wake(ob_host, word, 1))
		ob_wake_missed(word);
}

#endif
