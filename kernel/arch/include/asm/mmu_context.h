/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_MMU_CONTEXT_H
#define _ASM_OUTBOARD_MMU_CONTEXT_H

#include <linux/mm_types.h>
#include <linux/sched.h>

#ifdef CONFIG_MMU
/* core/space_map.c */
void ob_space_forked(struct mm_struct *mm);
void ob_space_end(struct mm_struct *mm);
/* core/space_site.c */
int ob_sites_copy(struct mm_struct *old, struct mm_struct *mm);
void ob_sites_end(struct mm_struct *mm);

/*
 * Access to the memory of another process, which may have rewritten call sites, sees the program's
 * own bytes: core/space_site.c. Only mm/memory.c uses these two, which also includes this file:
 * asm/cacheflush.h, where they belong, would do, too.
 */
void ob_sites_read(struct vm_area_struct *vma, unsigned long address, void *to, const void *from,
		   unsigned long size);
void ob_sites_write(struct vm_area_struct *vma, unsigned long address, void *to, const void *from,
		    unsigned long size);

#undef copy_from_user_page
#define copy_from_user_page(vma, page, address, to, from, size) \
	ob_sites_read(vma, address, to, from, size)
#undef copy_to_user_page
#define copy_to_user_page(vma, page, address, to, from, size) \
	ob_sites_write(vma, address, to, from, size)

/* fork() is about to flush all of `old`, only because private pages are not writable any more. */
static inline int arch_dup_mmap(struct mm_struct *old, struct mm_struct *mm)
{
	ob_space_forked(old);
	return ob_sites_copy(old, mm);
}

/* No task has the mm any more. */
static inline void arch_exit_mmap(struct mm_struct *mm)
{
	ob_space_end(mm);
	ob_sites_end(mm);
}

static inline bool arch_vma_access_permitted(struct vm_area_struct *vma, bool write, bool execute,
					     bool foreign)
{
	return true;
}
#else
#include <asm-generic/mm_hooks.h>
#endif

/* `task`: that which executes a program, or the copy that fork() makes. */
#define init_new_context init_new_context
static inline int init_new_context(struct task_struct *task, struct mm_struct *mm)
{
	mm->context.space = NULL;
	mm->context.own = (struct ob_space) {};
	mm->context.program = task->thread.program;
	return 0;
}

/* A space is named when it is entered. The task only notes how it reaches user memory. */
static inline void switch_mm(struct mm_struct *prev, struct mm_struct *next,
			     struct task_struct *task)
{
	task->thread.apart = next->context.program;
}

#include <asm-generic/mmu_context.h>
#endif
