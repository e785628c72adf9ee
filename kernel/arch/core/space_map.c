// SPDX-License-Identifier: GPL-2.0-only
/*
 * The spaces of programs, as caches of the page tables (V12).
 *
 *   when                                   what happens in the space
 *   a fault has set entries                shows them: update_mmu_cache_range()
 *   a fault, but the table has the page    shows it, with those beside it
 *   Linux flushes the TLB                  hides the range before the pages are given away (V17)
 *   fork()                                 takes the right to write away, and hides nothing
 *   the host has no room for a mapping     hides all, and shows the page once more
 *   the last task has left the mm          ends the space
 *
 * A page is readable there when its entry is young, and writable when that is also dirty, which
 * keeps Linux's bits right.
 *
 * The lock of a space makes a look at the entries and the host's call one step. Linux flushes after
 * it has cleared an entry. So a page that is shown by an old entry is hidden again.
 */
#include <linux/mm.h>
#include <linux/sched.h>
#include <asm/host.h>
#include <asm/io.h>
#include <asm/mmu_context.h>
#include <outboard/hypercall_spaces.h>
#include "lock.h"
#include "page_entry.h"
#include "space.h"

/* The part of a space, aligned, of which a run may be shown with one of its pages. */
#define OB_BESIDE_BYTES (256UL << 10)

/* A run of neighbouring pages, shown by one call of the host. */
struct ob_space_run {
	u64 space;
	unsigned long start, size;
	u64 physical;
	u32 protection;
};

static int ob_space_run_map(const struct ob_space_run *run)
{
	if (!run->size)
		return 0;
	return ob_host_space_map(ob_host, run->space, run->start, run->physical, run->size,
				 run->protection);
}

static int ob_space_run_add(struct ob_space_run *run, unsigned long address, pte_t entry)
{
	u64 physical = ob_entry_physical(entry);
	u32 protection = ob_user_protection(entry);
	int error;

	if (run->size && run->start + run->size == address &&
	    run->physical + run->size == physical && run->protection == protection) {
		run->size += PAGE_SIZE;
		return 0;
	}
	error = ob_space_run_map(run);
	*run = (struct ob_space_run) { run->space, address, PAGE_SIZE, physical, protection };
	return error;
}

/* Under the lock of the space. */
static int ob_space_show_once(u64 space, unsigned long address, pte_t *p, unsigned int count)
{
	struct ob_space_run run = { .space = space };
	int error = 0;

	for (; count && !error; count--, address += PAGE_SIZE, p++) {
		pte_t entry = ptep_get(p);

		if (ob_is_user_visible(entry, false))
			error = ob_space_run_add(&run, address, entry);
	}
	return error ?: ob_space_run_map(&run);
}

/*
 * The calling task handles a fault at this page of its mm. Linux may set entries one by one, at
 * neighbouring pages in the same table: they are shown together.
 */
void ob_space_show_begin(unsigned long address)
{
	struct thread_struct *thread = &current->thread;

	thread->show = address;
	thread->show_end = address + PAGE_SIZE;
	thread->shows_later = true;
}

/* Whether user code could access the page if the entry were young. */
static bool ob_is_there(pte_t entry, bool write)
{
	return ob_is_user_visible(pte_mkyoung(entry), write);
}

/* Whether neighbours are shown together: by one call of the host, or `all` in any case. */
static bool ob_are_together(pte_t entry, pte_t next, bool all)
{
	if (!ob_is_there(entry, false) || !ob_is_there(next, false))
		return false;
	return all || (ob_entry_physical(entry) + PAGE_SIZE == ob_entry_physical(next) &&
		       ob_user_protection(entry) == ob_user_protection(next));
}

/*
 * Makes the entries of the page and of those beside it young: those that are in one run with it, or
 * `all` that are there. They are shown when the fault ends. The caller has locked the table.
 */
static void ob_show_beside_later(struct vm_area_struct *vma, unsigned long address, pte_t *p,
				 bool all)
{
	struct thread_struct *thread = &current->thread;
	const unsigned long block = ALIGN_DOWN(address, OB_BESIDE_BYTES);
	const unsigned long least = all ? max(block, vma->vm_start) : block;
	const unsigned long most = all ? min(block + OB_BESIDE_BYTES, vma->vm_end) :
		block + OB_BESIDE_BYTES;
	unsigned long end = address + PAGE_SIZE;
	pte_t *last = p;

	for (; end < most && ob_are_together(ptep_get(last), ptep_get(last + 1), all); last++)
		end += PAGE_SIZE;
	for (; address > least && ob_are_together(ptep_get(p - 1), ptep_get(p), all); p--)
		address -= PAGE_SIZE;
	thread->show = min(thread->show, address);
	thread->show_end = max(thread->show_end, end);
	for (; address < end; address += PAGE_SIZE, p++)
		set_pte_at(vma->vm_mm, address, p, pte_mkyoung(ptep_get(p)));
}

/*
 * If the table allows the access, only the space lacks the page: it is new after a fork(), or the
 * page had other rights. So it may lack those beside the page, too. Makes entries young, as Linux
 * does with pages near a fault, and has them shown with the page. The mm is locked.
 *
 * A linker writes to data of a library page by page, and then takes the right to write away: those
 * pages are the program's own, not neighbours in RAM, and most of them are read.
 */
bool ob_space_show_what_is_there(struct vm_area_struct *vma, unsigned long address, bool write)
{
	const bool all = vma->vm_file && vma->anon_vma && !(vma->vm_flags & (VM_WRITE | VM_EXEC));
	spinlock_t *lock;
	pte_t *p = ob_user_entry_lock(vma->vm_mm, address, &lock);
	bool is_there = p && ob_is_there(ptep_get(p), write);

	if (is_there)
		ob_show_beside_later(vma, address & PAGE_MASK, p, all);
	if (p)
		pte_unmap_unlock(p, lock);
	return is_there;
}

void ob_space_show_end(struct mm_struct *mm)
{
	struct thread_struct *thread = &current->thread;
	unsigned long flags;
	spinlock_t *lock;
	pte_t *p;

	thread->shows_later = false;
	local_irq_save(flags);
	p = ob_user_entry_lock(mm, thread->show, &lock);
	if (p) {
		ob_space_show(mm, thread->show, p, (thread->show_end - thread->show) / PAGE_SIZE);
		pte_unmap_unlock(p, lock);
	}
	local_irq_restore(flags);
}

/* Whether the pages are in the table of those that are shown after the fault. */
static bool ob_space_show_later(unsigned long start, unsigned long end)
{
	struct thread_struct *thread = &current->thread;

	if (!thread->shows_later || (start ^ thread->show) & PMD_MASK)
		return false;
	thread->show = min(thread->show, start);
	thread->show_end = max(thread->show_end, end);
	return true;
}

/* Shows pages as their entries are. The caller holds the lock of their table. */
void ob_space_show(struct mm_struct *mm, unsigned long address, pte_t *p, unsigned int count)
{
	struct ob_space *space = &mm->context.own;
	unsigned long flags;

	if (!READ_ONCE(space->number) || address >= ob_layout.space_end)
		return;
	if (mm == current->mm && ob_space_show_later(address, address + count * PAGE_SIZE))
		return;
	flags = ob_lock_raw(&space->lock);
	if (space->number && ob_space_show_once(space->number, address, p, count)) {
		ob_host_space_unmap(ob_host, space->number, 0, ob_layout.space_end);
		/* Else the program faults again. */
		ob_space_show_once(space->number, address, p, count);
	}
	ob_unlock_raw(&space->lock, flags);
}

/* When this returns, no user code reaches the pages of that range (V17). */
void ob_space_hide(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	struct ob_space *space = &mm->context.own;
	unsigned long flags;
	bool all;

	start = round_down(start, PAGE_SIZE);
	end = end < ob_layout.space_end ? round_up(end, PAGE_SIZE) : ob_layout.space_end;
	if (!READ_ONCE(space->number) || start >= end)
		return;
	all = !start && end == ob_layout.space_end;
	flags = ob_lock_raw(&space->lock);
	if (all && space->is_protected)
		space->is_protected = false;
	else if (space->number)
		ob_host_space_unmap(ob_host, space->number, start, end - start);
	ob_unlock_raw(&space->lock, flags);
}

/*
 * fork() has taken the right to write from the entries, and flushes all of the mm now, which stays
 * locked for writing. The flush finds that this is done.
 */
void ob_space_forked(struct mm_struct *mm)
{
	struct ob_space *space = &mm->context.own;
	unsigned long flags;

	if (!READ_ONCE(space->number))
		return;
	flags = ob_lock_raw(&space->lock);
	space->is_protected = !ob_host_space_protect(ob_host, space->number, 0,
						     ob_layout.space_end,
						     OB_PROTECTION_READ | OB_PROTECTION_EXECUTE);
	ob_unlock_raw(&space->lock, flags);
}

/* No task has the mm any more, and all its pages are about to be freed. */
void ob_space_end(struct mm_struct *mm)
{
	struct ob_space *space = &mm->context.own;
	unsigned long flags;
	u64 number;

	if (!READ_ONCE(space->number))
		return;
	flags = ob_lock_raw(&space->lock);
	number = space->number;
	WRITE_ONCE(space->number, 0);
	ob_unlock_raw(&space->lock, flags);
	ob_host_space_destroy(ob_host, number);
}

/* Makes sure that the mm of a program has a space. 0, or the host's error. */
int ob_space_make(struct mm_struct *mm)
{
	struct ob_space *space = &mm->context.own;
	u64 number;
	int error;

	if (likely(READ_ONCE(space->number)))
		return 0;
	error = ob_host_space_create(ob_host, &number);
	if (error)
		return error;
	/* Another thread of the program may have been faster. */
	if (cmpxchg(&space->number, 0, number))
		ob_host_space_destroy(ob_host, number);
	WRITE_ONCE(mm->context.space, space);
	return 0;
}
