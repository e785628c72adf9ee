/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pages and the direct map. RAM is one region of the host's address space, at
 * an address that is known at boot; physical addresses are low and differ from
 * it by a constant (V13). The first section of physical memory stays empty:
 * physical address 0 means "none" in places.
 */
#ifndef _ASM_OUTBOARD_PAGE_H
#define _ASM_OUTBOARD_PAGE_H

#include <linux/const.h>

#define PAGE_SHIFT 12
#define PAGE_SIZE (_AC(1, UL) << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))

#define OB_PHYS_OFFSET (_AC(1, UL) << 24)

#ifndef __ASSEMBLY__
#include <linux/string.h>

/* Where things are in the address space; set once, before the kernel starts. */
struct ob_layout {
	unsigned long ram;		/* the direct map */
	unsigned long ram_ceiling;	/* end of what RAM can grow to */
	unsigned long direct_offset;	/* ram - OB_PHYS_OFFSET */
	unsigned long page_array;	/* struct page of page frame 0 */
	unsigned long vmalloc, vmalloc_end;
	unsigned long modules, modules_end;
	unsigned long client, client_end;
	unsigned long stacks, stacks_end;
	unsigned long space_end;	/* of the addresses of a program; 0: there are none */
};
extern struct ob_layout ob_layout;

#define PAGE_OFFSET (ob_layout.ram)

#define clear_page(page) memset((page), 0, PAGE_SIZE)
#define copy_page(to, from) memcpy((to), (from), PAGE_SIZE)
#define clear_user_page(page, vaddr, pg) clear_page(page)
#define copy_user_page(to, from, vaddr, pg) copy_page(to, from)

struct vm_area_struct;
struct folio *ob_alloc_zeroed_folio(struct vm_area_struct *vma, unsigned long address);
#define vma_alloc_zeroed_movable_folio(vma, address) ob_alloc_zeroed_folio(vma, address)

/* The data of a program are not executable, unless it asks for that. */
#define VM_DATA_DEFAULT_FLAGS VM_DATA_FLAGS_TSK_EXEC

typedef struct { unsigned long pte; } pte_t;
typedef struct { unsigned long pmd; } pmd_t;
#ifdef CONFIG_MMU
typedef struct { unsigned long pud; } pud_t;
#define pud_val(x) ((x).pud)
#define __pud(x) ((pud_t) { (x) })
#endif
typedef struct { unsigned long pgd; } pgd_t;
typedef struct { unsigned long pgprot; } pgprot_t;
typedef struct page *pgtable_t;

#define pte_val(x) ((x).pte)
#define pmd_val(x) ((x).pmd)
#define pgd_val(x) ((x).pgd)
#define pgprot_val(x) ((x).pgprot)
#define __pte(x) ((pte_t) { (x) })
#define __pmd(x) ((pmd_t) { (x) })
#define __pgd(x) ((pgd_t) { (x) })
#define __pgprot(x) ((pgprot_t) { (x) })

#define __pa(x) ((unsigned long)(x) - ob_layout.direct_offset)
#define __va(x) ((void *)((unsigned long)(x) + ob_layout.direct_offset))

#define ARCH_PFN_OFFSET (OB_PHYS_OFFSET >> PAGE_SHIFT)

static inline unsigned long virt_to_pfn(const volatile void *address)
{
	return __pa(address) >> PAGE_SHIFT;
}
#define virt_to_pfn virt_to_pfn
#define pfn_to_virt(pfn) __va((unsigned long)(pfn) << PAGE_SHIFT)
#define pfn_to_kaddr(pfn) pfn_to_virt(pfn)
#define virt_to_page(address) pfn_to_page(virt_to_pfn(address))
#define page_to_virt(page) pfn_to_virt(page_to_pfn(page))
#define virt_addr_valid(address)						\
	((unsigned long)(address) >= ob_layout.ram &&				\
	 (unsigned long)(address) < (unsigned long)high_memory)

#ifdef CONFIG_SPARSEMEM_VMEMMAP
#define vmemmap ((struct page *)ob_layout.page_array)
#endif

#ifdef CONFIG_OUTBOARD_SNAPSHOT
/* core/save.c */
struct page;
extern unsigned long ob_snapshot_end;
void ob_snapshot_page_used(struct page *page, unsigned int order);

#define HAVE_ARCH_ALLOC_PAGE
#define arch_alloc_page(page, order)			\
	do {						\
		if (unlikely(ob_snapshot_end))		\
			ob_snapshot_page_used(page, order); \
	} while (0)
#endif
#endif

#include <asm-generic/memory_model.h>
#include <asm-generic/getorder.h>
#endif
