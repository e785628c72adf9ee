// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page faults in the memory of programs: of their own code, and of the kernel's accesses for them
 * (space_access.c). Linux sets the entries; update_mmu_cache_range() shows them (space_map.c).
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/pagemap.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/userfaultfd_k.h>
#include "page_entry.h"
#include "space.h"
#include "space_fault.h"

/* Bits of the processor's error code. */
#define OB_TRAP_WRITE 2
#define OB_TRAP_EXECUTE 16
#define OB_TRAP_KEY 32

/* The most pages that a program gets with one fault. */
#define OB_NEW_PAGES_MOST 32

/* Of so much of a file a program gets all cached pages with one fault. */
#define OB_CACHED_BYTES (256UL << 10)
/* Of so much Linux brings them at a time: fault_around_bytes of mm/memory.c. */
#define OB_NEAR_BYTES (64UL << 10)

/* Areas of data that are no larger come as a whole with the first write. */
#define OB_DATA_PAGES_MOST 16

/* Waits for nothing, and leaves the reserves alone. */
#define OB_GFP_BLOCK \
	((GFP_HIGHUSER_MOVABLE | __GFP_NOMEMALLOC | __GFP_NOWARN) & ~__GFP_DIRECT_RECLAIM)

/* The page is not there, or the mm is locked no more. */
#define OB_FAULT_ENDED (VM_FAULT_ERROR | VM_FAULT_RETRY | VM_FAULT_COMPLETED)

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

/* Whether the page cache has that page of the mapping's file, so that nobody waits for a disk. */
static bool ob_is_cached(struct vm_area_struct *vma, unsigned long address)
{
	struct folio *folio = filemap_get_folio(vma->vm_file->f_mapping,
						linear_page_index(vma, address));
	bool is_cached;

	if (IS_ERR(folio))
		return false;
	is_cached = folio_test_uptodate(folio);
	folio_put(folio);
	return is_cached;
}

/* Whether the area has pages of its own for what the program writes to its file's data. */
static bool ob_is_data_of_file(const struct vm_area_struct *vma)
{
	return vma->vm_file && !(vma->vm_flags & VM_SHARED) && vma->vm_flags & VM_WRITE;
}

/*
 * Whether the area has data of a program or library: the area before has more of the file. Until a
 * program writes to a private page, it follows the file: pages of a file that others may write to
 * now must not be copied early.
 */
static bool ob_is_program_data(const struct vm_area_struct *vma)
{
	const struct vm_area_struct *before = find_vma(vma->vm_mm, vma->vm_start - 1);

	return ob_is_data_of_file(vma) &&
	       before->vm_end == vma->vm_start && before->vm_file == vma->vm_file &&
	       !inode_is_open_for_write(file_inode(vma->vm_file));
}

/* Whether the area is small, and has data of a program or library, or the zeroes behind these. */
static bool ob_is_small_data(struct vm_area_struct *vma)
{
	const struct vm_area_struct *before = find_vma(vma->vm_mm, vma->vm_start - 1);

	if (vma_pages(vma) > OB_DATA_PAGES_MOST ||
	    vma->vm_flags & (VM_LOCKED | VM_LOCKONFAULT | VM_SHARED))
		return false;
	if (vma_is_anonymous(vma))
		return before->vm_end == vma->vm_start && ob_is_data_of_file(before);
	return ob_is_program_data(vma);
}

/* Whether the page is the file's, or none yet, and nobody waits for a disk to get it. */
static bool ob_is_first_write(struct vm_area_struct *vma, unsigned long address)
{
	const pte_t entry = ob_user_entry(vma->vm_mm, address);

	if (pte_none(entry))
		return vma_is_anonymous(vma) || ob_is_cached(vma, address);
	return pte_present(entry) && !PageAnon(pte_page(entry));
}

/* Whether the program has not written to the page, and may get it as its own early. */
static bool ob_is_unwritten(struct vm_area_struct *vma, unsigned long address)
{
	return vma_is_anonymous(vma) ? ob_user_is_untouched(vma->vm_mm, address) :
		ob_is_first_write(vma, address);
}

/* Whether the program has touched the page of anonymous memory, or has its own copy of a file's. */
static bool ob_is_written(struct vm_area_struct *vma, unsigned long address)
{
	const pte_t entry = ob_user_entry(vma->vm_mm, address);

	if (vma_is_anonymous(vma))
		return !ob_user_is_untouched(vma->vm_mm, address);
	return pte_present(entry) && PageAnon(pte_page(entry));
}

/* How many pages in a row, which end at `address`, the program has written to. */
static unsigned int ob_written_before(struct vm_area_struct *vma, unsigned long address)
{
	unsigned int most = min((address - vma->vm_start) / PAGE_SIZE, OB_NEW_PAGES_MOST);
	unsigned int count = 0;

	while (count < most && ob_is_written(vma, address - (count + 1) * PAGE_SIZE))
		count++;
	return count;
}

/*
 * How many pages the program gets at `address`. It writes to one page after the other if its fault
 * before has brought those that end there, or, as it may do this in several places in turn, if it
 * has written to them. Then it gets twice as many that it has not written to. They are in one
 * table of pages. The mm is locked.
 */
static unsigned int ob_new_pages(struct vm_area_struct *vma, unsigned long address)
{
	struct thread_struct *thread = &current->thread;
	unsigned long end = min(vma->vm_end, ALIGN(address + 1, PMD_SIZE));
	unsigned int before, most = 1, count = 0;

	if (vma_is_anonymous(vma) || ob_is_program_data(vma)) {
		before = thread->shown_end == address ? thread->new_pages :
			ob_written_before(vma, address);
		most = min3(2 * before, OB_NEW_PAGES_MOST, (end - address) / PAGE_SIZE);
	}
	while (most > 1 && count < most && ob_is_unwritten(vma, address + count * PAGE_SIZE))
		count++;
	count = max(count, 1);
	thread->shown_end = address + count * PAGE_SIZE;
	thread->new_pages = count;
	return count;
}

/* Neighbours in RAM, so that they need one mapping of the host. If there are none, single pages. */
static void ob_block_begin(unsigned int count)
{
	unsigned int order = get_order(count * PAGE_SIZE);
	struct page *block;

	if (count < 2)
		return;
	block = alloc_pages(OB_GFP_BLOCK, order);
	if (!block)
		return;
	split_page(block, order);
	current->thread.block = block;
	current->thread.block_pages = 1 << order;
}

static void ob_block_end(void)
{
	struct thread_struct *thread = &current->thread;

	for (; thread->block_pages; thread->block_pages--)
		__free_page(thread->block++);
}

/* How Linux allocates a page of anonymous memory. */
struct folio *ob_alloc_zeroed_folio(struct vm_area_struct *vma, unsigned long address)
{
	struct thread_struct *thread = &current->thread;
	struct folio *folio;

	if (thread->block_pages) {
		thread->block_pages--;
		folio = page_folio(thread->block++);
	} else {
		folio = vma_alloc_folio(GFP_HIGHUSER_MOVABLE, 0, vma, address, false);
	}
	if (folio)
		clear_user_highpage(folio_page(folio, 0), address);
	return folio;
}

/* Brings the cached pages up to `end`, which Linux brings at a time. */
static vm_fault_t ob_bring_near(struct vm_area_struct *vma, unsigned long address,
				unsigned long end)
{
	while (address < end && !ob_is_cached(vma, address))
		address += PAGE_SIZE;
	return address < end ? handle_mm_fault(vma, address, 0, NULL) : 0;
}

/*
 * The program has begun to write there: it gets the area's other pages, too. But not those that it
 * shares with another process since a fork(), which often ends before it writes to them. The mm is
 * locked.
 */
static void ob_bring_data(struct vm_area_struct *vma)
{
	unsigned long address = vma->vm_start;
	vm_fault_t outcome = 0;

	for (; address < vma->vm_end && !(outcome & OB_FAULT_ENDED); address += PAGE_SIZE)
		if (ob_is_first_write(vma, address))
			outcome = handle_mm_fault(vma, address, FAULT_FLAG_WRITE, NULL);
}

/*
 * Linux brings pages of the page cache that are near. A fault costs more here, so a program gets
 * those of a larger part of the file. The mm is locked.
 */
static void ob_bring_cached(struct vm_area_struct *vma, unsigned long address)
{
	unsigned long start = max(vma->vm_start, ALIGN_DOWN(address, OB_CACHED_BYTES));
	unsigned long end = min(vma->vm_end, ALIGN(address + 1, OB_CACHED_BYTES));
	unsigned long next;
	vm_fault_t outcome = 0;

	for (; start < end && !(outcome & OB_FAULT_ENDED); start = next) {
		next = ALIGN(start + 1, OB_NEAR_BYTES);
		if (ob_user_is_untouched(vma->vm_mm, start))
			outcome = ob_bring_near(vma, start, min(end, next));
	}
}

/*
 * Whether the process alone has the page, and only Linux's entry keeps it from writing: it was
 * shared since a fork(), and the other process has ended, or executes another program.
 */
static bool ob_is_own(struct vm_area_struct *vma, unsigned long address)
{
	const pte_t entry = ob_user_entry(vma->vm_mm, address);
	struct folio *folio;

	if (!pte_present(entry) || pte_write(entry) || !PageAnon(pte_page(entry)))
		return false;
	folio = page_folio(pte_page(entry));
	return !folio_test_large(folio) && !folio_test_ksm(folio) && folio_ref_count(folio) == 1;
}

/* Lets the process write to pages of its own that are near: none of them is copied. */
static void ob_bring_own(struct vm_area_struct *vma, unsigned long address)
{
	unsigned long start = max(vma->vm_start, ALIGN_DOWN(address, OB_NEAR_BYTES));
	unsigned long end = min(vma->vm_end, ALIGN(address + 1, OB_NEAR_BYTES));
	vm_fault_t outcome = 0;

	for (; start < end && !(outcome & OB_FAULT_ENDED); start += PAGE_SIZE)
		if (ob_is_own(vma, start))
			outcome = handle_mm_fault(vma, start, FAULT_FLAG_WRITE, NULL);
}

/* Brings the page, and further ones. The mm is locked. */
static vm_fault_t ob_bring_pages(struct vm_area_struct *vma, unsigned long address,
				 unsigned int flags)
{
	/* The program itself brings pages there, one for each fault. */
	const bool is_alone = userfaultfd_armed(vma), writes = flags & FAULT_FLAG_WRITE;
	const bool is_data = writes && !is_alone && ob_is_small_data(vma);
	const bool is_own = writes && !is_alone && ob_is_own(vma, address);
	unsigned int count = writes && !is_alone && !is_data ?
		ob_new_pages(vma, address & PAGE_MASK) : 1;
	vm_fault_t outcome, further = 0;

	ob_block_begin(is_data ? vma_pages(vma) : vma_is_anonymous(vma) ? count : 1);
	outcome = handle_mm_fault(vma, address, flags, NULL);
	if (is_data && !(outcome & OB_FAULT_ENDED))
		ob_bring_data(vma);
	if (is_own && !(outcome & OB_FAULT_ENDED))
		ob_bring_own(vma, address);
	while (--count && !((outcome | further) & OB_FAULT_ENDED)) {
		address += PAGE_SIZE;
		further = handle_mm_fault(vma, address, FAULT_FLAG_WRITE, NULL);
	}
	ob_block_end();
	if (!writes && !is_alone && vma->vm_file && !(outcome & OB_FAULT_ENDED))
		ob_bring_cached(vma, address);
	return outcome;
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

static enum ob_fault_outcome ob_handle_fault(struct mm_struct *mm, unsigned long address,
					     unsigned int flags)
{
	enum ob_fault_outcome refused;
	struct vm_area_struct *vma;
	vm_fault_t outcome = 0;

	do {
		vma = lock_mm_and_find_vma(mm, address, NULL);
		if (!vma)
			return fatal_signal_pending(current) ? OB_FAULT_SIGNAL : OB_FAULT_NO_AREA;
		refused = ob_area_outcome(vma, flags);
		if (refused) {
			mmap_read_unlock(mm);
			return refused;
		}
		if (ob_space_show_what_is_there(vma, address, flags & FAULT_FLAG_WRITE))
			break;
		outcome = ob_bring_pages(vma, address, flags);
		if (ob_fault_gave_up(outcome, flags))
			return OB_FAULT_SIGNAL;
		if (outcome & VM_FAULT_COMPLETED)
			return OB_FAULT_DONE;
		flags |= FAULT_FLAG_TRIED;
	} while (outcome & VM_FAULT_RETRY);
	mmap_read_unlock(mm);
	return ob_fault_outcome(outcome);
}

/*
 * `flags`: FAULT_FLAG_... May sleep. The space shows the page in the end, also if the fault did not
 * change the entry: the host may have had no room for it.
 */
enum ob_fault_outcome ob_space_fault(struct mm_struct *mm, unsigned long address,
				     unsigned int flags)
{
	enum ob_fault_outcome outcome;

	ob_space_show_begin(address & PAGE_MASK);
	outcome = ob_handle_fault(mm, address, flags);
	ob_space_show_end(mm);
	return outcome;
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
