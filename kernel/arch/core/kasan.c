// SPDX-License-Identifier: GPL-2.0-only
/*
 * KASAN. The host shows zeroes as the shadow of the whole address space, and takes memory where the
 * shadow is written. So the kernel neither allocates nor maps shadow later: this file keeps Linux
 * from doing that for vmalloc and for hot-added memory.
 */
#include <linux/init_task.h>
#include <linux/kasan.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <asm/host.h>
#include "kasan.h"

bool ob_kasan_ready;

/* Has the page tables say that all of the shadow is mapped: hot-added memory looks there. */
static void ob_shadow_tables(void)
{
	unsigned long address;
	int i;

	for (i = 0; i < PTRS_PER_PTE; i++) {
		kasan_early_shadow_pte[i] = pfn_pte(0, PAGE_KERNEL);
		kasan_early_shadow_pmd[i] = __pmd(__pa(kasan_early_shadow_pte) | _PAGE_TABLE);
		kasan_early_shadow_pud[i] = __pud(__pa(kasan_early_shadow_pmd) | _PAGE_TABLE);
	}
	for (address = KASAN_SHADOW_START; address < KASAN_SHADOW_END; address += PGDIR_SIZE)
		set_p4d(p4d_offset(pgd_offset_k(address), address),
			__p4d(__pa(kasan_early_shadow_pud) | _PAGE_TABLE));
}

int ob_kasan_setup(void)
{
	u64 address = KASAN_SHADOW_START;
	int error = ob_host_region_reserve(ob_host, OB_REGION_SHADOW, KASAN_SHADOW_SIZE, &address);

	if (error)
		return error;
	ob_shadow_tables();
	init_task.kasan_depth = 0;
	ob_kasan_ready = true;
	return 0;
}

int __wrap_kasan_populate_vmalloc(unsigned long address, unsigned long size);
void __wrap_kasan_release_vmalloc(void);

/*
 * Poisons an area that vmalloc is about to hand out. vmalloc then allows the part that it gives.
 *
 * Dodge kasan_populate_vmalloc, kasan_release_vmalloc: the host shows all of the shadow from
 * the start.
 */
int __wrap_kasan_populate_vmalloc(unsigned long address, unsigned long size)
{
	__kasan_poison_vmalloc((void *)address, size);
	return 0;
}

/* The shadow stays: the next area will be in the same place. */
void __wrap_kasan_release_vmalloc(void)
{
}
