// SPDX-License-Identifier: GPL-2.0-only
/* Entries of the page tables: what they say of a page, and how that of a page is found. */
#include <linux/mm.h>
#include <asm/host.h>
#include <asm/io.h>
#include "page_entry.h"

/* As hypercalls name the page. */
u64 ob_entry_physical(pte_t entry)
{
	return (pte_val(entry) & PAGE_MASK) - OB_PHYS_OFFSET;
}

u32 ob_user_protection(pte_t entry)
{
	return OB_PROTECTION_READ |
	       (pte_write(entry) && pte_dirty(entry) ? OB_PROTECTION_WRITE : 0) |
	       (pte_val(entry) & _PAGE_EXECUTE ? OB_PROTECTION_EXECUTE : 0);
}

/* A driver may have mapped device memory for user code, which no host mapping of RAM can show. */
bool ob_is_device_memory(pte_t entry)
{
	return pte_val(entry) >= OB_IOMEM_BASE;
}

/* Whether user code could access the page so, without another fault. */
bool ob_is_user_visible(pte_t entry, bool write)
{
	return pte_val(entry) & _PAGE_PRESENT && pte_young(entry) && !ob_is_device_memory(entry) &&
	       (!write || (pte_write(entry) && pte_dirty(entry)));
}

/*
 * Returns the entry of a page of user code, whose table is locked then; or NULL. The caller has
 * locked the mm, or has interrupts off.
 */
pte_t *ob_user_entry_lock(struct mm_struct *mm, unsigned long address, spinlock_t **lock)
{
	p4d_t p4d = READ_ONCE(*p4d_offset(pgd_offset(mm, address), address));
	pud_t pud = p4d_none(p4d) ? __pud(0) : READ_ONCE(p4d_pgtable(p4d)[pud_index(address)]);
	pmd_t *pmd = pud_none(pud) ? NULL : pud_pgtable(pud) + pmd_index(address);

	return pmd ? pte_offset_map_lock(mm, pmd, address, lock) : NULL;
}

/* As it is at the moment, or an empty one. The mm is locked. */
pte_t ob_user_entry(struct mm_struct *mm, unsigned long address)
{
	spinlock_t *lock;
	pte_t *p = ob_user_entry_lock(mm, address, &lock);
	pte_t entry = p ? ptep_get(p) : __pte(0);

	if (p)
		pte_unmap_unlock(p, lock);
	return entry;
}

/* Whether no user code has accessed that page yet. The mm is locked. */
bool ob_user_is_untouched(struct mm_struct *mm, unsigned long address)
{
	return pte_none(ob_user_entry(mm, address));
}
