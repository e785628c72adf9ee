/* SPDX-License-Identifier: GPL-2.0-only */
/* The context switch: switch.c. */
#ifndef OUTBOARD_CORE_SWITCH_H
#define OUTBOARD_CORE_SWITCH_H

#include <linux/sched/task.h>
#include "vcpu.h"

void ob_switch_finished(void);
bool ob_pass_to(struct ob_vcpu *vcpu, struct task_struct *next, const u32 *own);
bool ob_arrive(struct task_struct *task, bool switched);

/* Linux's end of the switch that brought the calling task here. Interrupts are off. */
static inline void ob_switch_tail(void)
{
	schedule_tail(ob_this_vcpu()->switched_from);
}

#endif
