/* SPDX-License-Identifier: GPL-2.0-only */
/* Host mappings are our TLB: a flush takes them away (core/mmu.c). */
#ifndef _ASM_OUTBOARD_TLBFLUSH_H
#define _ASM_OUTBOARD_TLBFLUSH_H

#include <linux/mm_types.h>
#include <asm/page.h>

#ifdef CONFIG_MMU
void ob_kernel_unmap(unsigned long start, unsigned long end);
void ob_client_unmap(struct mm_struct *mm, unsigned long start, unsigned long end);

static inline void flush_tlb_all(void)
{
	ob_kernel_unmap(0, ~0UL);
}

static inline void flush_tlb_mm(struct mm_struct *mm)
{
	ob_client_unmap(mm, 0, TASK_SIZE_MAX);
}

#define flush_tlb_range(vma, start, end) ob_client_unmap((vma)->vm_mm, start, end)
#define flush_tlb_page(vma, address)						\
	ob_client_unmap((vma)->vm_mm, address, (address) + PAGE_SIZE)
#define flush_tlb_kernel_range(start, end) ob_kernel_unmap(start, end)
#else
#include <asm-generic/tlbflush.h>
#endif
#endif
