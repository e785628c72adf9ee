// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page faults in the memory of programs: of their own code, and of the kernel's accesses for them
 * (space_access.c). Linux sets the entries; update_mmu_cache_range() shows them (space_map.c).
 */
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include "page_entry.h"
#include "space.h"
#include "space_fault.h"

/* Bits of the processor's error code. */
#define OB_TRAP_WRITE 2
#define OB_TRAP_EXECUTE 16
#define OB_TRAP_KEY 32

/* Pages that a program gets with one fault if it writes to one new page after the other. */
#define OB_FAULT_PAGES 8

/* Whether the mapping can have such a page, and allows the access. A space shows only RAM. */
static enum ob_fault_outcome ob_area_outcome(const struct vm_area_struct *vma, unsigned int flags)
{
	vm_flags_t wanted = VM_ACCESS_FLAGS;

	if (flags & FAULT_FLAG_WRITE)
		wanted = VM_WRITE;
	else if (flags & FAULT_FLAG_INSTRUCTION)
		wanted = VM_EXEC;
	if (!(vma->vm_flags & wanted))
		return OB_FAULT_NO_ACCESS;
	return vma->vm_flags & VM_IO ? OB_FAULT_NO_DATA : OB_FAULT_DONE;
}

/*
 * The program has written to the page at `address`, and with its fault before to the one that ends
 * there: it gets the next ones, too, of memory that nobody has touched. The mm is locked.
 */
static void ob_space_fault_ahead(struct vm_area_struct *vma, unsigned long address)
{
	unsigned long end = min(address + OB_FAULT_PAGES * PAGE_SIZE, vma->vm_end);
	bool in_sequence = current->thread.shown_end == address;

	address += PAGE_SIZE;
	while (in_sequence && address < end && vma_is_anonymous(vma) &&
	       ob_user_is_untouched(vma->vm_mm, address)) {
		if (handle_mm_fault(vma, address, FAULT_FLAG_WRITE, NULL) & VM_FAULT_ERROR)
			break;
		address += PAGE_SIZE;
	}
	current->thread.shown_end = address;
}

static enum ob_fault_outcome ob_fault_outcome(vm_fault_t outcome)
{
	if (!(outcome & VM_FAULT_ERROR))
		return OB_FAULT_DONE;
	if (outcome & VM_FAULT_OOM)
		return OB_FAULT_NO_MEMORY;
	return outcome & VM_FAULT_SIGSEGV ? OB_FAULT_NO_ACCESS : OB_FAULT_NO_DATA;
}

/* Whether handle_mm_fault() gave up for a signal. */
static bool ob_fault_gave_up(vm_fault_t outcome, unsigned int flags)
{
	return outcome & VM_FAULT_RETRY &&
	       (fatal_signal_pending(current) ||
		(flags & FAULT_FLAG_USER && signal_pending(current)));
}

/* `flags`: FAULT_FLAG_... May sleep. */
enum ob_fault_outcome ob_space_fault(struct mm_struct *mm, unsigned long address,
				     unsigned int flags)
{
	enum ob_fault_outcome refused;
	struct vm_area_struct *vma;
	vm_fault_t outcome;

	do {
		vma = lock_mm_and_find_vma(mm, address, NULL);
		if (!vma)
			return fatal_signal_pending(current) ? OB_FAULT_SIGNAL : OB_FAULT_NO_AREA;
		refused = ob_area_outcome(vma, flags);
		if (refused) {
			mmap_read_unlock(mm);
			return refused;
		}
		outcome = handle_mm_fault(vma, address, flags, NULL);
		if (ob_fault_gave_up(outcome, flags))
			return OB_FAULT_SIGNAL;
		if (outcome & VM_FAULT_COMPLETED)
			return OB_FAULT_DONE;
		flags |= FAULT_FLAG_TRIED;
	} while (outcome & VM_FAULT_RETRY);
	if (!(outcome & VM_FAULT_ERROR) && flags & FAULT_FLAG_WRITE)
		ob_space_fault_ahead(vma, address & PAGE_MASK);
	mmap_read_unlock(mm);
	return ob_fault_outcome(outcome);
}

/* The space may not show the page: the fault did not change the entry, or the host had no room. */
static void ob_space_refill(struct mm_struct *mm, unsigned long address)
{
	unsigned long flags;
	spinlock_t *lock;
	pte_t *p;

	local_irq_save(flags);
	p = ob_user_entry_lock(mm, address, &lock);
	if (p) {
		ob_space_show(mm, address, p, 1);
		pte_unmap_unlock(p, lock);
	}
	local_irq_restore(flags);
}

/* A page fault of the calling program's own code. */
void ob_program_fault(const struct ob_trap *trap)
{
	void __user *address = (void __user *)trap->address;
	unsigned int flags = FAULT_FLAG_DEFAULT | FAULT_FLAG_USER;

	/* No page helps: the program itself has taken its right away. It has key 0 only. */
	if (trap->error_code & OB_TRAP_KEY) {
		force_sig_pkuerr(address, 0);
		return;
	}
	if (trap->error_code & OB_TRAP_WRITE)
		flags |= FAULT_FLAG_WRITE;
	if (trap->error_code & OB_TRAP_EXECUTE)
		flags |= FAULT_FLAG_INSTRUCTION;
	switch (trap->address < ob_layout.space_end ?
		ob_space_fault(current->mm, trap->address, flags) : OB_FAULT_NO_AREA) {
	case OB_FAULT_DONE:
		ob_space_refill(current->mm, trap->address & PAGE_MASK);
		break;
	case OB_FAULT_SIGNAL:
		break;
	case OB_FAULT_NO_AREA:
		force_sig_fault(SIGSEGV, SEGV_MAPERR, address);
		break;
	case OB_FAULT_NO_ACCESS:
		force_sig_fault(SIGSEGV, SEGV_ACCERR, address);
		break;
	case OB_FAULT_NO_DATA:
		force_sig_fault(SIGBUS, BUS_ADRERR, address);
		break;
	case OB_FAULT_NO_MEMORY:
		pagefault_out_of_memory();
		break;
	}
}
