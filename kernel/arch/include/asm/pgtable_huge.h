/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Huge entries of page tables. None exist here: the host gets clients' pages one by one.
 *
 * CONFIG_TRANSPARENT_HUGEPAGE is on for its other half, large folios in the page cache: files then
 * cost by the folio, not by the page. Linux's code for huge entries needs these definitions to
 * compile; has_transparent_hugepage() forbids making one.
 */
#ifndef _ASM_OUTBOARD_PGTABLE_HUGE_H
#define _ASM_OUTBOARD_PGTABLE_HUGE_H

#define has_transparent_hugepage() 0

#define HPAGE_SHIFT PMD_SHIFT
#define HPAGE_SIZE PMD_SIZE
#define HPAGE_MASK PMD_MASK

static inline int pmd_trans_huge(pmd_t entry) { return 0; }

static inline pte_t pmd_pte(pmd_t entry) { return __pte(pmd_val(entry)); }
static inline pmd_t pte_pmd(pte_t entry) { return __pmd(pte_val(entry)); }

#define pmd_write(entry) pte_write(pmd_pte(entry))
#define pmd_dirty(entry) pte_dirty(pmd_pte(entry))
#define pmd_young(entry) pte_young(pmd_pte(entry))
#define pmd_mkclean(entry) pte_pmd(pte_mkclean(pmd_pte(entry)))
#define pmd_mkdirty(entry) pte_pmd(pte_mkdirty(pmd_pte(entry)))
#define pmd_mkold(entry) pte_pmd(pte_mkold(pmd_pte(entry)))
#define pmd_mkyoung(entry) pte_pmd(pte_mkyoung(pmd_pte(entry)))
#define pmd_wrprotect(entry) pte_pmd(pte_wrprotect(pmd_pte(entry)))
#define pmd_mkwrite_novma(entry) pte_pmd(pte_mkwrite_novma(pmd_pte(entry)))
#define pmd_mkhuge(entry) (entry)
#define pmd_mkinvalid(entry) (entry)
#define pmd_modify(entry, prot) pte_pmd(pte_modify(pmd_pte(entry), prot))
#define pfn_pmd(pfn, prot) pte_pmd(pfn_pte(pfn, prot))
#define mk_pmd(page, prot) pfn_pmd(page_to_pfn(page), prot)
#define pmdp_establish generic_pmdp_establish

struct mm_struct;
struct vm_area_struct;

static inline void update_mmu_cache_pmd(struct vm_area_struct *vma, unsigned long address, pmd_t *p)
{
}

static inline void set_pmd_at(struct mm_struct *mm, unsigned long address, pmd_t *p, pmd_t entry)
{
	set_pmd(p, entry);
}

#endif
