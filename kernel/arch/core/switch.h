/* SPDX-License-Identifier: GPL-2.0-only */
/* What a thread does after a switch to its task: switch.c. */
#ifndef OUTBOARD_CORE_SWITCH_H
#define OUTBOARD_CORE_SWITCH_H

#include <linux/sched/task.h>
#include "vcpu.h"

/* Linux's end of the switch that brought the calling task here. Interrupts are off. */
static inline void ob_switch_tail(void)
{
	schedule_tail(ob_this_vcpu()->switched_from);
}

#endif
