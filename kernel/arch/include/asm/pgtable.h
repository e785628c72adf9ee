/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Page tables. They are software: four levels of 512 entries, walked by nobody but the kernel and
 * core/mmu.c, which shows their contents to the host.
 *
 * An entry is a physical address and the bits below. A swapped-out entry has neither PRESENT nor
 * PROTNONE, the type of the swap area in bits 5 to 9 and the offset above bit 11.
 */
#ifndef _ASM_OUTBOARD_PGTABLE_H
#define _ASM_OUTBOARD_PGTABLE_H

#include <asm/page.h>

#ifndef CONFIG_MMU
#include <asm-generic/pgtable-nopud.h>

#define pgd_present(pgd) (1)
#define pgd_none(pgd) (0)
#define pgd_bad(pgd) (0)
#define pgd_clear(pgdp)
#define pmd_offset(pud, address) ((void *)0)
#define PMD_SIZE (1UL << 21)
#define PAGE_NONE __pgprot(0)
#define PAGE_SHARED __pgprot(0)
#define PAGE_COPY __pgprot(0)
#define PAGE_READONLY __pgprot(0)
#define PAGE_KERNEL __pgprot(0)
#define PAGE_KERNEL_EXEC __pgprot(0)
#define pgprot_noncached(prot) (prot)
#define pgprot_writecombine(prot) (prot)
#define swapper_pg_dir ((pgd_t *)0)
#define VMALLOC_START 0UL
#define VMALLOC_END (~0UL)
#define KMAP_START 0UL
#define KMAP_END (~0UL)
#else

#define PGDIR_SHIFT 39
#include <asm-generic/pgtable-nop4d.h>

#define PUD_SHIFT 30
#define PMD_SHIFT 21
#define PGDIR_SIZE (1UL << PGDIR_SHIFT)
#define PGDIR_MASK (~(PGDIR_SIZE - 1))
#define PUD_SIZE (1UL << PUD_SHIFT)
#define PUD_MASK (~(PUD_SIZE - 1))
#define PMD_SIZE (1UL << PMD_SHIFT)
#define PMD_MASK (~(PMD_SIZE - 1))
#define PTRS_PER_PGD 512
#define PTRS_PER_PUD 512
#define PTRS_PER_PMD 512
#define PTRS_PER_PTE 512

#define _PAGE_PRESENT 0x001UL
#define _PAGE_PROTNONE 0x002UL
#define _PAGE_WRITE 0x004UL
#define _PAGE_USER 0x008UL
#define _PAGE_EXECUTE 0x010UL
#define _PAGE_ACCESSED 0x400UL
#define _PAGE_DIRTY 0x800UL
#define _PAGE_SWP_EXCLUSIVE 0x400UL

#define _PAGE_TABLE (_PAGE_PRESENT | _PAGE_WRITE | _PAGE_USER)
#define _PAGE_CHG_MASK (PAGE_MASK | _PAGE_ACCESSED | _PAGE_DIRTY)
#define _PAGE_CLIENT (_PAGE_PRESENT | _PAGE_USER | _PAGE_ACCESSED)
#define _PAGE_KERNEL (_PAGE_PRESENT | _PAGE_ACCESSED | _PAGE_DIRTY)

#define PAGE_NONE __pgprot(_PAGE_PROTNONE | _PAGE_ACCESSED)
#define PAGE_SHARED __pgprot(_PAGE_CLIENT | _PAGE_WRITE)
#define PAGE_SHARED_EXEC __pgprot(_PAGE_CLIENT | _PAGE_WRITE | _PAGE_EXECUTE)
#define PAGE_COPY __pgprot(_PAGE_CLIENT)
#define PAGE_READONLY PAGE_COPY
#define PAGE_READONLY_EXEC __pgprot(_PAGE_CLIENT | _PAGE_EXECUTE)
#define PAGE_KERNEL __pgprot(_PAGE_KERNEL | _PAGE_WRITE)
#define PAGE_KERNEL_RO __pgprot(_PAGE_KERNEL)
#define PAGE_KERNEL_EXEC __pgprot(_PAGE_KERNEL | _PAGE_WRITE | _PAGE_EXECUTE)
#define pgprot_noncached(prot) (prot)
#define pgprot_writecombine(prot) (prot)

#define VMALLOC_START (ob_layout.vmalloc)
#define VMALLOC_END (ob_layout.vmalloc_end)
#define MODULES_VADDR (ob_layout.modules)
#define MODULES_END (ob_layout.modules_end)

/*
 * Clients get addresses in their window only, whatever they ask for. Programs may ask for the low
 * ones.
 */
#define HAVE_ARCH_UNMAPPED_AREA
#define HAVE_ARCH_UNMAPPED_AREA_TOPDOWN

#ifndef __ASSEMBLY__
extern pgd_t swapper_pg_dir[PTRS_PER_PGD];

#define pte_ERROR(e) pr_err("bad pte %016lx\n", pte_val(e))
#define pmd_ERROR(e) pr_err("bad pmd %016lx\n", pmd_val(e))
#define pud_ERROR(e) pr_err("bad pud %016lx\n", pud_val(e))
#define pgd_ERROR(e) pr_err("bad pgd %016lx\n", pgd_val(e))

static inline void set_pte(pte_t *p, pte_t entry) { WRITE_ONCE(p->pte, entry.pte); }
static inline void set_pmd(pmd_t *p, pmd_t entry) { WRITE_ONCE(p->pmd, entry.pmd); }
static inline void set_pud(pud_t *p, pud_t entry) { WRITE_ONCE(p->pud, entry.pud); }
static inline void set_p4d(p4d_t *p, p4d_t entry) { WRITE_ONCE(p->pgd.pgd, entry.pgd.pgd); }

#define PFN_PTE_SHIFT PAGE_SHIFT
#define pte_none(entry) (!pte_val(entry))
#define pte_clear(mm, address, p) set_pte(p, __pte(0))
#define pte_present(entry) (pte_val(entry) & (_PAGE_PRESENT | _PAGE_PROTNONE))
#define pte_pfn(entry) (pte_val(entry) >> PAGE_SHIFT)
#define pte_page(entry) pfn_to_page(pte_pfn(entry))
#define pfn_pte(pfn, prot) __pte(((unsigned long)(pfn) << PAGE_SHIFT) | pgprot_val(prot))
#define mk_pte(page, prot) pfn_pte(page_to_pfn(page), prot)

static inline bool pte_write(pte_t entry) { return pte_val(entry) & _PAGE_WRITE; }
static inline bool pte_dirty(pte_t entry) { return pte_val(entry) & _PAGE_DIRTY; }
static inline bool pte_young(pte_t entry) { return pte_val(entry) & _PAGE_ACCESSED; }
static inline pte_t pte_mkclean(pte_t entry) { return __pte(pte_val(entry) & ~_PAGE_DIRTY); }
static inline pte_t pte_mkdirty(pte_t entry) { return __pte(pte_val(entry) | _PAGE_DIRTY); }
static inline pte_t pte_mkold(pte_t entry) { return __pte(pte_val(entry) & ~_PAGE_ACCESSED); }
static inline pte_t pte_mkyoung(pte_t entry) { return __pte(pte_val(entry) | _PAGE_ACCESSED); }
static inline pte_t pte_wrprotect(pte_t entry) { return __pte(pte_val(entry) & ~_PAGE_WRITE); }
static inline pte_t pte_mkwrite_novma(pte_t entry) { return __pte(pte_val(entry) | _PAGE_WRITE); }

static inline pte_t pte_modify(pte_t entry, pgprot_t prot)
{
	return __pte((pte_val(entry) & _PAGE_CHG_MASK) | pgprot_val(prot));
}

/* A directory entry points to a table in RAM. */
#define OB_TABLE_ENTRY(level, below)						\
static inline int level##_none(level##_t e) { return !level##_val(e); }		\
static inline int level##_present(level##_t e) { return level##_val(e) & _PAGE_PRESENT; } \
static inline int level##_bad(level##_t e)					\
{										\
	return (level##_val(e) & ~PAGE_MASK) != _PAGE_TABLE;			\
}										\
static inline unsigned long level##_pfn(level##_t e) { return level##_val(e) >> PAGE_SHIFT; }

OB_TABLE_ENTRY(pmd, pte)
OB_TABLE_ENTRY(pud, pmd)
OB_TABLE_ENTRY(p4d, pud)

#define pmd_clear(p) set_pmd(p, __pmd(0))
#define pud_clear(p) set_pud(p, __pud(0))
#define p4d_clear(p) set_p4d(p, __p4d(0))
#define pmd_page(e) pfn_to_page(pmd_pfn(e))
#define pud_page(e) pfn_to_page(pud_pfn(e))
#define p4d_page(e) pfn_to_page(p4d_pfn(e))

static inline unsigned long pmd_page_vaddr(pmd_t e)
{
	return (unsigned long)__va(pmd_val(e) & PAGE_MASK);
}

static inline pmd_t *pud_pgtable(pud_t e)
{
	return __va(pud_val(e) & PAGE_MASK);
}

static inline pud_t *p4d_pgtable(p4d_t e)
{
	return __va(p4d_val(e) & PAGE_MASK);
}

struct vm_fault;
struct vm_area_struct;

void ob_client_map(struct vm_area_struct *vma, unsigned long address,
		   pte_t *p, unsigned int count);

#define update_mmu_cache_range(vmf, vma, address, p, count) ob_client_map(vma, address, p, count)
#define update_mmu_cache(vma, address, p) ob_client_map(vma, address, p, 1)

#define __swp_type(entry) (((entry).val >> 5) & 0x1f)
#define __swp_offset(entry) ((entry).val >> PAGE_SHIFT)
#define __swp_entry(type, offset)						\
	((swp_entry_t) { (((type) & 0x1fUL) << 5) | ((unsigned long)(offset) << PAGE_SHIFT) })
#define __pte_to_swp_entry(entry) ((swp_entry_t) { pte_val(entry) })
#define __swp_entry_to_pte(entry) __pte((entry).val)

#ifdef CONFIG_TRANSPARENT_HUGEPAGE
#include <asm/pgtable_huge.h>
#endif

static inline int pte_swp_exclusive(pte_t entry)
{
	return !!(pte_val(entry) & _PAGE_SWP_EXCLUSIVE);
}

static inline pte_t pte_swp_mkexclusive(pte_t entry)
{
	return __pte(pte_val(entry) | _PAGE_SWP_EXCLUSIVE);
}

static inline pte_t pte_swp_clear_exclusive(pte_t entry)
{
	return __pte(pte_val(entry) & ~_PAGE_SWP_EXCLUSIVE);
}
#endif
#endif

#ifndef __ASSEMBLY__
/* The zero page is in RAM, so it has a struct page. */
extern struct page *ob_zero_page;
#define ZERO_PAGE(address) (ob_zero_page)
#endif
#endif
