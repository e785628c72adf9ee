/* SPDX-License-Identifier: GPL-2.0-only */
/* Entries of the page tables: page_entry.c. */
#ifndef OUTBOARD_CORE_PAGE_ENTRY_H
#define OUTBOARD_CORE_PAGE_ENTRY_H

#include <linux/mm_types.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>

u64 ob_entry_physical(pte_t entry);
u32 ob_user_protection(pte_t entry);
bool ob_is_device_memory(pte_t entry);
bool ob_is_user_visible(pte_t entry, bool write);
pte_t *ob_user_entry_lock(struct mm_struct *mm, unsigned long address, spinlock_t **lock);
pte_t ob_user_entry(struct mm_struct *mm, unsigned long address);
bool ob_user_is_untouched(struct mm_struct *mm, unsigned long address);

#endif
