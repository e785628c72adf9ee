/* SPDX-License-Identifier: GPL-2.0-only */
/* What the gate has to know of the vCPU's run queue, without a call. */
#ifndef OUTBOARD_CORE_RUNQUEUE_H
#define OUTBOARD_CORE_RUNQUEUE_H

#include <linux/mmu_context.h>
#include <../kernel/sched/sched.h>

/*
 * Whether more tasks than the current one want the vCPU. Those that sleep, but that the scheduler has not yet taken from
 * the queue, do not. By the vCPU's holder.
 */
static __always_inline bool ob_others_wait(void)
{
	struct rq *queue = this_rq();
	unsigned int count = READ_ONCE(queue->nr_running);

	return unlikely(count > 1) && count - READ_ONCE(queue->cfs.h_nr_delayed) > 1;
}

#endif
