// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's mappings as a cache of the page tables (V12): a software TLB whose entries are host
 * mappings of RAM.
 *
 *   window             filled                                     emptied
 *   vmalloc, modules   when Linux makes a mapping, and on faults  where Linux flushes the TLB
 *   client             by the page fault handler: readable when   the same
 *                      the entry is young, writable when it is
 *                      also dirty, which keeps Linux's bits right
 *   spaces             space_map.c                                the same
 *
 * When the host has no room for another mapping, a whole window is dropped. Pages that the tables
 * still have come back by faults.
 *
 * ob_mirror_lock makes a look at the tables and the change of the host's mappings one step: a purge
 * may cover areas that are alive. A fault takes it while the thread holds any of the kernel's
 * locks. So code under it takes no other lock, does not sleep, and does not fault.
 */
#include <linux/export.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/vmalloc.h>
#include <asm/cacheflush.h>
#include <asm/host.h>
#include <asm/io.h>
#include <asm/pgalloc.h>
#include <asm/tlbflush.h>
#include "lock.h"
#include "mmu.h"
#include "page_entry.h"
#include "space.h"

pgd_t swapper_pg_dir[PTRS_PER_PGD] __page_aligned_bss;

static struct ob_lock ob_mirror_lock;

/*
 * Returns the entry of a kernel address, NULL if it has no table. The answer holds up to `next`.
 */
static pte_t *ob_kernel_entry(unsigned long address, unsigned long *next)
{
	p4d_t *p4d = p4d_offset(pgd_offset_k(address), address);
	pud_t *pud;
	pmd_t *pmd;

	*next = (address + PGDIR_SIZE) & PGDIR_MASK;
	if (p4d_none(*p4d))
		return NULL;
	*next = (address + PUD_SIZE) & PUD_MASK;
	pud = pud_offset(p4d, address);
	if (pud_none(*pud))
		return NULL;
	*next = (address + PMD_SIZE) & PMD_MASK;
	pmd = pmd_offset(pud, address);
	if (pmd_none(*pmd))
		return NULL;
	return pte_offset_kernel(pmd, address);
}

static u32 ob_kernel_protection(pte_t entry)
{
	return OB_PROTECTION_READ | (pte_write(entry) ? OB_PROTECTION_WRITE : 0) |
	       (pte_val(entry) & _PAGE_EXECUTE ? OB_PROTECTION_EXECUTE : 0);
}

/* A run of pages that one host call can show or hide. */
struct ob_run {
	unsigned long start, size;
	u64 physical;
	u32 protection;
};

static int ob_run_map(const struct ob_run *run)
{
	if (!run->size)
		return 0;
	return ob_host_map(ob_host, run->start, run->physical, run->size, run->protection);
}

/* Adds a page to the run. If it does not fit, shows the run and begins a new one. */
static int ob_run_add(struct ob_run *run, unsigned long address, pte_t entry, u32 protection)
{
	u64 physical = ob_entry_physical(entry);
	int error;

	if (run->size && run->start + run->size == address && run->protection == protection &&
	    run->physical + run->size == physical) {
		run->size += PAGE_SIZE;
		return 0;
	}
	error = ob_run_map(run);
	*run = (struct ob_run) { address, PAGE_SIZE, physical, protection };
	return error;
}

static void ob_drop_kernel_windows(void)
{
	const struct ob_range windows[] = {
		{ ob_layout.vmalloc, ob_layout.vmalloc_end - ob_layout.vmalloc },
		{ ob_layout.modules, ob_layout.modules_end - ob_layout.modules },
	};

	ob_host_unmap_many(ob_host, windows, ARRAY_SIZE(windows));
}

static int ob_show_range(unsigned long start, unsigned long end)
{
	unsigned long address, next;
	struct ob_run run = {};
	int error = 0;

	for (address = start; address < end && !error; address = next) {
		pte_t *p = ob_kernel_entry(address, &next);

		next = next ? min(next, end) : end;
		if (!p)
			continue;
		for (; address < next && !error; address += PAGE_SIZE, p++) {
			pte_t entry = *p;

			if (pte_present(entry))
				error = ob_run_add(&run, address, entry,
						   ob_kernel_protection(entry));
		}
	}
	return error ?: ob_run_map(&run);
}

/* Shows new kernel mappings. If the host has no room, faults show them later. */
void ob_kernel_map(unsigned long start, unsigned long end)
{
	unsigned long flags = ob_lock_raw(&ob_mirror_lock);

	if (ob_show_range(start, end))
		ob_drop_kernel_windows();
	ob_unlock_raw(&ob_mirror_lock, flags);
}
EXPORT_SYMBOL(ob_kernel_map);

/* Runs of pages to hide, by one host call for all. */
struct ob_hidden {
	struct ob_range ranges[16];
	u32 count;
};

static void ob_hide(struct ob_hidden *hidden)
{
	if (hidden->count)
		ob_host_unmap_many(ob_host, hidden->ranges, hidden->count);
	hidden->count = 0;
}

static void ob_hidden_add(struct ob_hidden *hidden, unsigned long start, unsigned long end)
{
	if (start == end)
		return;
	hidden->ranges[hidden->count++] = (struct ob_range) { start, end - start };
	if (hidden->count == ARRAY_SIZE(hidden->ranges))
		ob_hide(hidden);
}

/* Hides pages that have no entry any more. Live areas between stay. */
static void ob_hide_range(unsigned long start, unsigned long end)
{
	unsigned long address, next;
	struct ob_hidden hidden;

	hidden.count = 0;
	for (address = start; address < end; address = next) {
		pte_t *p = ob_kernel_entry(address, &next);

		next = next ? min(next, end) : end;
		for (; p && address < next; address += PAGE_SIZE, p++) {
			if (pte_present(*p)) {
				ob_hidden_add(&hidden, start, address);
				start = address + PAGE_SIZE;
			}
		}
	}
	ob_hidden_add(&hidden, start, end);
	ob_hide(&hidden);
}

static void ob_kernel_unmap_window(unsigned long start, unsigned long end,
				   unsigned long window, unsigned long window_end)
{
	unsigned long flags;

	start = max(start, window);
	end = min(end, window_end);
	if (start >= end)
		return;
	flags = ob_lock_raw(&ob_mirror_lock);
	ob_hide_range(start, end);
	ob_unlock_raw(&ob_mirror_lock, flags);
}

void ob_kernel_unmap(unsigned long start, unsigned long end)
{
	ob_kernel_unmap_window(start, end, ob_layout.vmalloc, ob_layout.vmalloc_end);
	ob_kernel_unmap_window(start, end, ob_layout.modules, ob_layout.modules_end);
}
EXPORT_SYMBOL(ob_kernel_unmap);

/* The caller makes sure that nobody changes the tables. */
int ob_window_visit(unsigned long start, unsigned long end, ob_page_visit *visit)
{
	unsigned long address, next;
	int error = 0;

	for (address = start; address < end && !error; address = next) {
		pte_t *p = ob_kernel_entry(address, &next);

		next = next ? min(next, end) : end;
		for (; p && address < next && !error; address += PAGE_SIZE, p++)
			if (pte_present(*p))
				error = visit(address, ob_entry_physical(*p),
					      ob_kernel_protection(*p));
	}
	return error;
}

static bool ob_in_kernel_windows(unsigned long address)
{
	return (address >= ob_layout.vmalloc && address < ob_layout.vmalloc_end) ||
	       (address >= ob_layout.modules && address < ob_layout.modules_end);
}

static bool ob_kernel_allows(pte_t entry, const struct ob_fault *fault)
{
	if (!pte_present(entry) || (fault->flags & OB_FAULT_WRITE && !pte_write(entry)))
		return false;
	return !(fault->flags & OB_FAULT_EXECUTE) || pte_val(entry) & _PAGE_EXECUTE;
}

/* Handles a fault in the kernel's windows. Returns true if the page is there now. */
bool ob_kernel_fill(const struct ob_fault *fault)
{
	unsigned long address = fault->address & PAGE_MASK;
	unsigned long flags, next;
	bool filled = false;
	pte_t *p;

	if (!ob_in_kernel_windows(address))
		return false;
	flags = ob_lock_raw(&ob_mirror_lock);
	p = ob_kernel_entry(address, &next);
	if (p && ob_kernel_allows(*p, fault)) {
		filled = !ob_show_range(address, address + PAGE_SIZE);
		if (!filled) {
			ob_drop_kernel_windows();
			filled = !ob_show_range(address, address + PAGE_SIZE);
		}
	}
	ob_unlock_raw(&ob_mirror_lock, flags);
	return filled;
}

static bool ob_client_visible(unsigned long address, pte_t entry)
{
	return pte_val(entry) & _PAGE_PRESENT && pte_young(entry) &&
	       address >= ob_layout.client && address < ob_layout.client_end;
}

/*
 * -EFAULT: there is an entry that no window can show. Other errors may come from a lack of room,
 * so the whole window is dropped.
 */
static int ob_client_show(unsigned long address, pte_t *p, unsigned int count)
{
	struct ob_run run = {};
	int error = 0;

	for (; count && !error; count--, address += PAGE_SIZE, p++)
		if (ob_client_visible(address, *p))
			error = ob_is_device_memory(*p) ? -EFAULT :
				ob_run_add(&run, address, *p, ob_user_protection(*p));
	error = error ?: ob_run_map(&run);
	if (error && error != -EFAULT)
		ob_host_unmap(ob_host, ob_layout.client, ob_layout.client_end - ob_layout.client);
	return error;
}

/* Shows pages of user code whose entries were just set; called with the page-table lock held. */
void ob_client_map(struct vm_area_struct *vma, unsigned long address,
		   pte_t *p, unsigned int count)
{
	unsigned long flags;

	if (vma->vm_mm->context.space != &ob_local_space) {
		ob_space_show(vma->vm_mm, address, p, count);
		return;
	}
	flags = ob_lock_raw(&ob_mirror_lock);
	if (!ob_client_show(address, p, count)) {
		current->thread.shown = address;
		current->thread.shown_end = address + count * PAGE_SIZE;
	}
	ob_unlock_raw(&ob_mirror_lock, flags);
}
EXPORT_SYMBOL(ob_client_map);

/* Before the calling task handles a page fault. */
void ob_client_refill_begin(void)
{
	current->thread.shown = current->thread.shown_end = 0;
}

/*
 * After a page fault the entry is right, but the host may not show it: the fault did not change the
 * entry, or the host had no room until the window was dropped. Returns -ENOMEM if the host cannot
 * show even this page. The caller has locked the mm for reading.
 */
int ob_client_refill(struct mm_struct *mm, unsigned long address)
{
	unsigned long flags;
	spinlock_t *lock;
	int error;
	pte_t *p;

	if (address >= current->thread.shown && address < current->thread.shown_end)
		return 0;
	p = ob_user_entry_lock(mm, address, &lock);
	if (!p)
		return 0;
	flags = ob_lock_raw(&ob_mirror_lock);
	error = ob_client_show(address & PAGE_MASK, p, 1);
	if (error)
		error = ob_client_show(address & PAGE_MASK, p, 1);
	ob_unlock_raw(&ob_mirror_lock, flags);
	pte_unmap_unlock(p, lock);
	return error;
}

void ob_client_unmap(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	unsigned long flags;

	if (mm->context.space != &ob_local_space) {
		ob_space_hide(mm, start, end);
		return;
	}
	start = max(start, ob_layout.client);
	end = min(end, ob_layout.client_end);
	if (start >= end)
		return;
	flags = ob_lock_raw(&ob_mirror_lock);
	ob_host_unmap(ob_host, start, end - start);
	ob_unlock_raw(&ob_mirror_lock, flags);
}
EXPORT_SYMBOL(ob_client_unmap);

/*
 * A fixed address must be in the client window; a mere hint elsewhere is ignored. A host that
 * cannot map has no window.
 */
unsigned long ob_client_area(struct file *file, unsigned long address, unsigned long length,
			     unsigned long offset, unsigned long flags, vm_flags_t vm_flags)
{
	bool outside = address < ob_layout.client ||
		       length > ob_layout.client_end - ob_layout.client ||
		       address > ob_layout.client_end - length;

	if (!ob_layout.client_end)
		return -ENODEV;
	if (outside && flags & MAP_FIXED)
		return -ENOMEM;
	return generic_get_unmapped_area(file, outside ? 0 : address, length, offset, flags,
					 vm_flags);
}

static const pgprot_t protection_map[16] = {
	[VM_NONE]					= PAGE_NONE,
	[VM_READ]					= PAGE_READONLY,
	[VM_WRITE]					= PAGE_COPY,
	[VM_WRITE | VM_READ]				= PAGE_COPY,
	[VM_EXEC]					= PAGE_READONLY_EXEC,
	[VM_EXEC | VM_READ]				= PAGE_READONLY_EXEC,
	[VM_EXEC | VM_WRITE]				= PAGE_READONLY_EXEC,
	[VM_EXEC | VM_WRITE | VM_READ]			= PAGE_READONLY_EXEC,
	[VM_SHARED]					= PAGE_NONE,
	[VM_SHARED | VM_READ]				= PAGE_READONLY,
	[VM_SHARED | VM_WRITE]				= PAGE_SHARED,
	[VM_SHARED | VM_WRITE | VM_READ]		= PAGE_SHARED,
	[VM_SHARED | VM_EXEC]				= PAGE_READONLY_EXEC,
	[VM_SHARED | VM_EXEC | VM_READ]			= PAGE_READONLY_EXEC,
	[VM_SHARED | VM_EXEC | VM_WRITE]		= PAGE_SHARED_EXEC,
	[VM_SHARED | VM_EXEC | VM_WRITE | VM_READ]	= PAGE_SHARED_EXEC,
};
DECLARE_VM_GET_PAGE_PROT
