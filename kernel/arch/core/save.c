// SPDX-License-Identifier: GPL-2.0-only
/*
 * The contents of a snapshot: all memory of the kernel that is in use. The protocol is snapshot.c.
 *
 * The memory of a snapshot is the file's, and each page is copied when it is first written. A
 * window of the kernel shows pages of RAM a second time, and such a copy would not be seen there.
 * So pages that vmalloc shows are saved as shared. Pages of components, which nobody uses through
 * RAM, are saved as the window's own. All others leave the file when they are allocated anew.
 */
#include <linux/bitmap.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/sched/task.h>
#include <linux/sizes.h>
#include <asm/host.h>
#include <outboard/hypercall_snapshot.h>
#include "coroutine.h"
#include "machine.h"
#include "mmu.h"
#include "save.h"
#include "time.h"

/* RAM at boot is much less. A kernel that has used more is not saved. */
#define OB_SNAPSHOT_PAGES (SZ_128M >> PAGE_SHIFT)

/* Shorter runs of free pages are saved along with the pages around them. */
#define OB_SNAPSHOT_GAP_ORDER 3

/* Page frames below this one may be from a snapshot; 0: none is. */
unsigned long ob_snapshot_end;

/* In vmlinux.lds.S. */
extern char ob_image_data[], ob_image_data_end[], __bss_start[], __bss_stop[];

/* Free pages of a snapshot are the file's until they are used. Their contents do not matter. */
void ob_snapshot_page_used(struct page *page, unsigned int order)
{
	if (page_to_pfn(page) < ob_snapshot_end)
		ob_host_ram_renew(ob_host, (unsigned long)page_to_virt(page), PAGE_SIZE << order);
}

/* Pages of RAM by number. */
static DECLARE_BITMAP(ob_snapshot_shown, OB_SNAPSHOT_PAGES);
static DECLARE_BITMAP(ob_snapshot_elsewhere, OB_SNAPSHOT_PAGES);

static int ob_snapshot_note_shown(unsigned long address, u64 physical, u32 protection)
{
	__set_bit(physical >> PAGE_SHIFT, ob_snapshot_shown);
	return 0;
}

static int ob_snapshot_add_component(unsigned long address, u64 physical, u32 protection)
{
	__set_bit(physical >> PAGE_SHIFT, ob_snapshot_elsewhere);
	return ob_host_snapshot_add_window(ob_host, address, physical, protection);
}

static int ob_snapshot_windows(void)
{
	return ob_window_visit(ob_layout.vmalloc, ob_layout.vmalloc_end, ob_snapshot_note_shown) ?:
	       ob_window_visit(ob_layout.modules, ob_layout.modules_end, ob_snapshot_add_component);
}

static int ob_snapshot_add(const void *start, const void *end, enum ob_snapshot_kind kind)
{
	return ob_host_snapshot_add(ob_host, (unsigned long)start, end - start, kind);
}

enum ob_page_use {
	OB_PAGE_FREE = -1,
	OB_PAGE_PRIVATE = OB_SNAPSHOT_PRIVATE,
	OB_PAGE_SHARED = OB_SNAPSHOT_SHARED,
};

/* The use of the page; `count`: of how many pages from there on. */
static enum ob_page_use ob_page_use(unsigned long pfn, unsigned long *count)
{
	struct page *page = pfn_to_page(pfn);

	*count = 1;
	if (PageBuddy(page)) {
		*count = 1UL << page_private(page);
		return page_private(page) < OB_SNAPSHOT_GAP_ORDER ? OB_PAGE_PRIVATE : OB_PAGE_FREE;
	}
	if (test_bit(pfn - ARCH_PFN_OFFSET, ob_snapshot_elsewhere))
		return OB_PAGE_FREE;
	/* A client may map pages of the page cache later. */
	if (test_bit(pfn - ARCH_PFN_OFFSET, ob_snapshot_shown) || PageLRU(page) ||
	    page == ob_zero_page)
		return OB_PAGE_SHARED;
	return OB_PAGE_PRIVATE;
}

static int ob_snapshot_run(unsigned long start, unsigned long end, enum ob_page_use use)
{
	if (use == OB_PAGE_FREE || start == end)
		return 0;
	return ob_snapshot_add(pfn_to_virt(start), pfn_to_virt(end), (enum ob_snapshot_kind)use);
}

/* Adds all RAM that is not free, in runs of one kind. */
static int ob_snapshot_ram(void)
{
	unsigned long pfn, start = ARCH_PFN_OFFSET, count;
	enum ob_page_use use = OB_PAGE_FREE;
	int error = 0;

	for (pfn = start; pfn < max_pfn && !error; pfn += count) {
		enum ob_page_use this = ob_page_use(pfn, &count);

		if (this == use)
			continue;
		error = ob_snapshot_run(start, pfn, use);
		start = pfn;
		use = this;
	}
	return error ?: ob_snapshot_run(start, max_pfn, use);
}

/* Stacks of the tasks that run before the first call: the idle task, and the leader. */
static bool ob_stack_is_urgent(const void *stack)
{
	return stack == idle_task(0)->thread.stack || stack == ob_machine.leader->thread.stack;
}

static int ob_snapshot_stack(void *stack, size_t size)
{
	return ob_snapshot_add(stack, stack + size, ob_stack_is_urgent(stack) ?
			       OB_SNAPSHOT_URGENT : OB_SNAPSHOT_PRIVATE);
}

/* Saves the kernel, which is at rest. By the booting thread. Blocks. */
int ob_snapshot_write(void)
{
	struct page *pages = pfn_to_page(ARCH_PFN_OFFSET);

	if (ob_machine.components_error)
		return ob_machine.components_error;
	if (num_online_cpus() > 1 || max_pfn - ARCH_PFN_OFFSET > OB_SNAPSHOT_PAGES)
		return -EBUSY;
	ob_snapshot_end = max_pfn;
	ob_machine.saved_time = ob_clock();
	return ob_host_snapshot_begin(ob_host) ?:
	       ob_snapshot_add(ob_image_data, ob_image_data_end, OB_SNAPSHOT_PRIVATE) ?:
	       ob_snapshot_add(__bss_start, __bss_stop, OB_SNAPSHOT_PRIVATE) ?:
	       ob_snapshot_add(pages, pages + (max_pfn - ARCH_PFN_OFFSET), OB_SNAPSHOT_PRIVATE) ?:
	       ob_stacks_visit(ob_snapshot_stack) ?:
	       ob_snapshot_windows() ?:
	       ob_snapshot_ram() ?:
	       ob_host_snapshot_commit(ob_host);
}
