/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_MMU_CONTEXT_H
#define _ASM_OUTBOARD_MMU_CONTEXT_H

#include <linux/mm_types.h>
#include <asm-generic/mm_hooks.h>

#define init_new_context init_new_context
static inline int init_new_context(struct task_struct *task, struct mm_struct *mm)
{
	mm->context.space = NULL;
	return 0;
}

/* There is one address space, the host's: nothing is switched. */
static inline void switch_mm(struct mm_struct *prev, struct mm_struct *next,
			     struct task_struct *task)
{
}

#include <asm-generic/mmu_context.h>
#endif
