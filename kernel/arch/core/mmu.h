/* SPDX-License-Identifier: GPL-2.0-only */
/* The host's mappings, as a cache of the kernel's page tables: mmu.c. */
#ifndef OUTBOARD_CORE_MMU_H
#define OUTBOARD_CORE_MMU_H

#include <linux/mm_types.h>
#include <linux/types.h>

struct mm_struct;
struct ob_fault;

unsigned long ob_client_area(struct file *file, unsigned long address, unsigned long length,
			     unsigned long offset, unsigned long flags, vm_flags_t vm_flags);
void ob_client_refill_begin(void);
int ob_client_refill(struct mm_struct *mm, unsigned long address);
#ifdef CONFIG_MMU
bool ob_kernel_fill(const struct ob_fault *fault);
#else
static inline bool ob_kernel_fill(const struct ob_fault *fault)
{
	return false;
}
#endif

/* Visits every page in a window of the kernel, until a visit returns an error. */
typedef int ob_page_visit(unsigned long address, u64 physical, u32 protection);
int ob_window_visit(unsigned long start, unsigned long end, ob_page_visit *visit);

#endif
