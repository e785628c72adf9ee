/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_PGALLOC_H
#define _ASM_OUTBOARD_PGALLOC_H

#ifdef CONFIG_MMU
#define __HAVE_ARCH_PGD_FREE
#include <asm/io.h>
#include <asm-generic/pgalloc.h>

static inline void pmd_populate(struct mm_struct *mm, pmd_t *pmd, pgtable_t table)
{
	set_pmd(pmd, __pmd(page_to_phys(table) | _PAGE_TABLE));
}

static inline void pmd_populate_kernel(struct mm_struct *mm, pmd_t *pmd, pte_t *table)
{
	set_pmd(pmd, __pmd(__pa(table) | _PAGE_TABLE));
}

static inline void pud_populate(struct mm_struct *mm, pud_t *pud, pmd_t *table)
{
	set_pud(pud, __pud(__pa(table) | _PAGE_TABLE));
}

static inline void p4d_populate(struct mm_struct *mm, p4d_t *p4d, pud_t *table)
{
	set_p4d(p4d, __p4d(__pa(table) | _PAGE_TABLE));
}

static inline pgd_t *pgd_alloc(struct mm_struct *mm)
{
	return (pgd_t *)get_zeroed_page(GFP_KERNEL);
}

static inline void pgd_free(struct mm_struct *mm, pgd_t *pgd)
{
	free_page((unsigned long)pgd);
}

/*
 * core/space_access.c walks these tables with interrupts off and without the lock of the mm. So
 * they are freed later, and the lock in the descriptor of a table of pages with them.
 */
#define OB_TABLE_OF_PAGES 1UL

#define __pte_free_tlb(tlb, table, address)					\
	tlb_remove_table((tlb), (void *)((unsigned long)(table) | OB_TABLE_OF_PAGES))

#define __pmd_free_tlb(tlb, table, address)					\
do {										\
	pagetable_pmd_dtor(virt_to_ptdesc(table));				\
	tlb_remove_table((tlb), virt_to_page(table));				\
} while (0)

#define __pud_free_tlb(tlb, table, address)					\
do {										\
	pagetable_pud_dtor(virt_to_ptdesc(table));				\
	tlb_remove_table((tlb), virt_to_page(table));				\
} while (0)

static inline void __tlb_remove_table(void *table)
{
	unsigned long address = (unsigned long)table & ~OB_TABLE_OF_PAGES;
	struct ptdesc *descriptor = page_ptdesc((struct page *)address);

	if ((unsigned long)table & OB_TABLE_OF_PAGES)
		pagetable_pte_dtor(descriptor);
	pagetable_free(descriptor);
}
#define __tlb_remove_table __tlb_remove_table
#endif
#endif
