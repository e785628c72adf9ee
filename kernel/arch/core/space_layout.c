// SPDX-License-Identifier: GPL-2.0-only
/*
 * The layout of the address space of user code. A client's mappings are in the client window.
 * A program has the layout that it has on any Linux: the stack at the top, mappings below it, the
 * heap above the program; with random distances.
 */
#include <linux/elf-randomize.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/random.h>
#include <linux/resource.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/security.h>
#include <linux/sizes.h>
#include "mmu.h"

/* MAP_32BIT: addresses from 1 GB to 2 GB. */
#define OB_LOW_START 0x40000000UL
#define OB_LOW_END 0x80000000UL

/* The end of the addresses for mappings of the calling task. */
unsigned long ob_mmap_end(void)
{
	if (current->thread.apart)
		return ob_layout.space_end;
	/* The host shows the window of one process only: others get no mapping (ENOMEM). */
	return current->mm->context.space ? ob_layout.client_end - SZ_16M : mmap_min_addr;
}

/* A 128th of the space: 2^40 of 2^47. */
unsigned long arch_mmap_rnd(void)
{
	return get_random_long() % (ob_layout.space_end >> 7) & PAGE_MASK;
}

unsigned long arch_randomize_brk(struct mm_struct *mm)
{
	return randomize_page(mm->brk, SZ_32M);
}

void arch_pick_mmap_layout(struct mm_struct *mm, struct rlimit *stack)
{
	unsigned long end = ob_layout.space_end, gap;

	if (!mm->context.program) {
		mm->mmap_base = ob_layout.client;
		clear_bit(MMF_TOPDOWN, &mm->flags);
		return;
	}
	gap = clamp(stack->rlim_cur, (unsigned long)SZ_128M, end / 6 * 5) + stack_guard_gap;
	if (current->flags & PF_RANDOMIZE)
		gap += arch_mmap_rnd();
	mm->mmap_base = PAGE_ALIGN(end - min(gap, end / 6 * 5));
	set_bit(MMF_TOPDOWN, &mm->flags);
}

static unsigned long ob_program_area_low(unsigned long length)
{
	struct vm_unmapped_area_info info = {
		.length = length,
		.low_limit = OB_LOW_START,
		.high_limit = min(OB_LOW_END, ob_layout.space_end),
	};

	return vm_unmapped_area(&info);
}

unsigned long arch_get_unmapped_area(struct file *file, unsigned long address, unsigned long length,
				     unsigned long offset, unsigned long flags, vm_flags_t vm_flags)
{
	if (current->thread.apart)
		return generic_get_unmapped_area(file, address, length, offset, flags, vm_flags);
	return ob_client_area(file, address, length, offset, flags, vm_flags);
}

/* Only mms of programs are filled from the top. */
unsigned long arch_get_unmapped_area_topdown(struct file *file, unsigned long address,
					     unsigned long length, unsigned long offset,
					     unsigned long flags, vm_flags_t vm_flags)
{
	if (flags & MAP_32BIT && !(flags & MAP_FIXED))
		return ob_program_area_low(length);
	return generic_get_unmapped_area_topdown(file, address, length, offset, flags, vm_flags);
}
