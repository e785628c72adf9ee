// SPDX-License-Identifier: GPL-2.0-only
/*
 * KASAN. The host shows zeroes as the shadow of the whole address space, and takes memory for
 * what is written: nothing has to be allocated or mapped for it later. Linux's
 * code that would do so for vmalloc and for hot-added memory is kept from it here.
 */
#include <linux/init_task.h>
#include <linux/kasan.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include "kasan.h"
#include "vcpu.h"

bool ob_kasan_ready;

/* The page tables say that all of the shadow is mapped: memory that comes later looks there. */
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
 * What vmalloc is about to hand out is forbidden, up to what it then allows.
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
