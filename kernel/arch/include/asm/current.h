/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_CURRENT_H
#define _ASM_OUTBOARD_CURRENT_H

#include <asm/vcpu.h>

#ifndef __ASSEMBLY__
static __always_inline struct task_struct *get_current(void)
{
	return ob_this_thread->task;
}
#define current get_current()
#endif
#endif
