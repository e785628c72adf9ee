/* SPDX-License-Identifier: GPL-2.0-only */
/* What the gate asks of the vCPU's run queue, inlined. */
#ifndef OUTBOARD_CORE_RUNQUEUE_H
#define OUTBOARD_CORE_RUNQUEUE_H

#include <linux/mmu_context.h>
#include <../kernel/sched/sched.h>

/*
 * Whether other tasks than the current one want the vCPU. A task that sleeps may still be on the
 * queue (h_nr_delayed); it does not count. By the vCPU's holder.
 */
static __always_inline bool ob_others_wait(void)
{
	struct rq *queue = this_rq();
	unsigned int count = READ_ONCE(queue->nr_running);

	return unlikely(count > 1) && count - READ_ONCE(queue->cfs.h_nr_delayed) > 1;
}

#endif
