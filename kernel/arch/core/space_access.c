// SPDX-License-Identifier: GPL-2.0-only
/*
 * Access to a program's memory (V16). An address of a program is a number here, and never used as
 * an address: the page tables say which page of RAM it is, and whether the program may access it
 * so. Pages that are not there come by the page fault handler.
 *
 * The walk takes no lock of the mm: tables are freed only when every vCPU has had its interrupts
 * on (asm/pgalloc.h). The lock of the table of pages keeps the page while it is copied.
 */
#include <linux/export.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <asm/futex.h>
#include "page_entry.h"
#include "space_fault.h"

struct ob_piece {
	pte_t *entry;
	spinlock_t *lock;
	unsigned long flags;
};

/*
 * Returns where the byte at `address` is in RAM, with interrupts off and the page's table locked.
 * NULL: the program could not access it so now.
 */
static void *ob_piece_begin(struct ob_piece *piece, struct mm_struct *mm, unsigned long address,
			    bool write)
{
	local_irq_save(piece->flags);
	piece->entry = ob_user_entry_lock(mm, address, &piece->lock);
	if (piece->entry) {
		pte_t entry = ptep_get(piece->entry);

		if (ob_is_user_visible(entry, write))
			return __va(pte_val(entry) & PAGE_MASK) + offset_in_page(address);
		pte_unmap_unlock(piece->entry, piece->lock);
	}
	local_irq_restore(piece->flags);
	return NULL;
}

static void ob_piece_end(struct ob_piece *piece)
{
	pte_unmap_unlock(piece->entry, piece->lock);
	local_irq_restore(piece->flags);
}

/* Has the page fault handler make the page accessible. Returns whether to try again. */
static bool ob_piece_fault(struct mm_struct *mm, unsigned long address, bool write)
{
	unsigned int flags = FAULT_FLAG_DEFAULT | (write ? FAULT_FLAG_WRITE : 0);

	if (faulthandler_disabled() || irqs_disabled() || fatal_signal_pending(current))
		return false;
	cond_resched();
	return ob_space_fault(mm, address, flags) == OB_FAULT_DONE;
}

/* One piece within a page. `to` NULL: writes to the program; then `from` NULL: zeroes. */
static bool ob_piece_copy(unsigned long address, void *to, const void *from, unsigned long size)
{
	struct mm_struct *mm = current->mm;
	struct ob_piece piece;
	bool write = !to;
	void *at;

	if (!mm || address >= ob_layout.space_end)
		return false;
	while (!(at = ob_piece_begin(&piece, mm, address, write)))
		if (!ob_piece_fault(mm, address, write))
			return false;
	if (to)
		memcpy(to, at, size);
	else if (from)
		memcpy(at, from, size);
	else
		memset(at, 0, size);
	ob_piece_end(&piece);
	return true;
}

/* Returns the number of bytes that were not done. */
unsigned long ob_program_read(void *to, unsigned long from, unsigned long size)
{
	while (size) {
		unsigned long piece = min(size, PAGE_SIZE - offset_in_page(from));

		if (!ob_piece_copy(from, to, NULL, piece))
			break;
		to += piece;
		from += piece;
		size -= piece;
	}
	return size;
}
EXPORT_SYMBOL(ob_program_read);

/* The same. `from`: NULL for zeroes. */
unsigned long ob_program_write(unsigned long to, const void *from, unsigned long size)
{
	while (size) {
		unsigned long piece = min(size, PAGE_SIZE - offset_in_page(to));

		if (!ob_piece_copy(to, NULL, from, piece))
			break;
		to += piece;
		from = from ? from + piece : NULL;
		size -= piece;
	}
	return size;
}
EXPORT_SYMBOL(ob_program_write);

/*
 * Does not bring the page: callers have page faults disabled. Linux has it brought by
 * fixup_user_fault(), and tries again.
 */
int ob_program_cmpxchg(u32 *seen, unsigned long address, u32 old, u32 new)
{
	struct ob_piece piece;
	u32 *word;

	if (!current->mm || address >= ob_layout.space_end || address % sizeof(*word))
		return -EFAULT;
	word = ob_piece_begin(&piece, current->mm, address, true);
	if (!word)
		return -EFAULT;
	*seen = cmpxchg(word, old, new);
	ob_piece_end(&piece);
	return 0;
}
EXPORT_SYMBOL(ob_program_cmpxchg);
