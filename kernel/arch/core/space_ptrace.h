/* SPDX-License-Identifier: GPL-2.0-only */
/* Debuggers of programs: space_ptrace.c. */
#ifndef OUTBOARD_CORE_SPACE_PTRACE_H
#define OUTBOARD_CORE_SPACE_PTRACE_H

#include <linux/errno.h>

struct task_struct;

#ifdef CONFIG_MMU
long ob_program_ptrace(struct task_struct *child, long request, unsigned long address,
		       unsigned long data);
#else
static inline long ob_program_ptrace(struct task_struct *child, long request,
				     unsigned long address, unsigned long data)
{
	return -EIO;
}
#endif

#endif
