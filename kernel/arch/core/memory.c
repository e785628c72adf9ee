// SPDX-License-Identifier: GPL-2.0-only
/*
 * RAM at boot, and how pages are handed to vmalloc.
 *
 * The kernel starts with little and grows (grow.c). The array of struct page takes nothing from
 * RAM: the kernel commits a part of the array's region when it adds memory.
 */
#include <linux/gfp.h>
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/vmstat.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <asm/host.h>
#include "dma.h"
#include "machine.h"
#include "memory.h"

struct page *ob_zero_page;
EXPORT_SYMBOL(ob_zero_page);

static u64 ob_memory_unit(u64 memory)
{
	return memory < OB_MEMORY_IS_LITTLE ? OB_MEMORY_UNIT_SMALL : OB_MEMORY_UNIT;
}

/* Rounds the ceiling that the program asked for to whole units. */
u64 ob_memory_ceiling(u64 memory)
{
	return round_down(memory, ob_memory_unit(memory));
}

/* Linux adds memory in such units, each with an object in /sys. */
unsigned long memory_block_size_bytes(void)
{
	return ob_memory_unit(ob_machine.memory);
}

/* Without hot-add all memory is there from the start. */
u64 ob_memory_at_boot(void)
{
	u64 more = 0;

	if (!IS_ENABLED(CONFIG_MEMORY_HOTPLUG))
		return ob_machine.memory;
	if (ob_machine.vcpus > OB_VCPUS_FREE)
		more = (u64)(ob_machine.vcpus - OB_VCPUS_FREE) * OB_MEMORY_PER_VCPU;
	return min_t(u64, ob_machine.memory, OB_MEMORY_AT_BOOT + round_up(more, OB_MEMORY_UNIT));
}

/* Where ZONE_DMA32 ends. Of a block that is added after the boot, all pages join one zone. */
static unsigned long __init ob_memory_low_end(u64 at_boot)
{
	u64 end = ob_dma_low_end();

	if (end > OB_PHYS_OFFSET + at_boot)
		end = round_down(end, memory_block_size_bytes());
	return PHYS_PFN(end);
}

/* Linux adds a block to the zone that spans it. So ZONE_DMA32 spans all that will belong to it. */
static void __init ob_memory_extend_zone(struct zone *zone, unsigned long end)
{
	if (end)
		zone->spanned_pages = end - zone->zone_start_pfn;
}

void __init ob_memory_setup(void)
{
	unsigned long zones[MAX_NR_ZONES] = {};
	u64 size = ob_memory_at_boot();
	unsigned long low_end;

	memblock_add(OB_PHYS_OFFSET, size);
	ob_dma_setup();
	min_low_pfn = PFN_UP(OB_PHYS_OFFSET);
	max_low_pfn = max_pfn = PFN_DOWN(OB_PHYS_OFFSET + size);
	high_memory = (void *)(ob_layout.ram + size);
	set_max_mapnr(max_pfn);
	sparse_init();
	low_end = ob_memory_low_end(size);
	zones[ZONE_DMA32] = min(low_end, max_low_pfn);
	zones[ZONE_NORMAL] = max_low_pfn;
	free_area_init(zones);
	ob_memory_extend_zone(&NODE_DATA(0)->node_zones[ZONE_DMA32], low_end);
	ob_zero_page = virt_to_page(memblock_alloc(PAGE_SIZE, PAGE_SIZE));
}

void __init mem_init(void)
{
	memblock_free_all();
}

/* Start-up code stays: all processes share it with the image file. */
void free_initmem(void)
{
}

int __real___vm_enough_memory(struct mm_struct *mm, long pages, int privileged);
int __wrap___vm_enough_memory(struct mm_struct *mm, long pages, int privileged);

/*
 * Data that live only in memory (tmpfs, anonymous mappings) may not take all of it. There is no
 * process to kill when none is left, and file systems need some to write back and free more. Called
 * for each page of tmpfs.
 *
 * Dodge __vm_enough_memory: data that live only in memory may not take all of it.
 */
int __wrap___vm_enough_memory(struct mm_struct *mm, long pages, int privileged)
{
	unsigned long all = PFN_DOWN(ob_machine.memory);
	unsigned long rest = max(all / 8, min(all / 2, PFN_DOWN(SZ_16M)));

	if (global_node_page_state(NR_SHMEM) + global_node_page_state(NR_ANON_MAPPED) >= all - rest)
		return -ENOMEM;
	return __real___vm_enough_memory(mm, pages, privileged);
}

#ifdef CONFIG_SPARSEMEM_VMEMMAP
int __meminit vmemmap_populate(unsigned long start, unsigned long end, int node,
			       struct vmem_altmap *altmap)
{
	start = round_down(start, PAGE_SIZE);
	end = round_up(end, PAGE_SIZE);
	return ob_host_region_commit(ob_host, start, end - start);
}

void vmemmap_free(unsigned long start, unsigned long end, struct vmem_altmap *altmap)
{
	ob_host_region_discard(ob_host, start, end - start);
}
#endif

#ifdef CONFIG_MMU
/*
 * vmalloc asks for single pages in bulk. It gets runs of neighbours as long as there are some, so
 * that one host mapping shows many pages. After a short answer vmalloc would ask for the rest page
 * by page, so this delivers all of them if it can.
 *
 * Dodge alloc_pages_bulk_noprof: vmalloc gets neighbouring pages, so that one host
 * mapping shows many.
 */
unsigned long __real_alloc_pages_bulk_noprof(gfp_t gfp, int node, nodemask_t *nodes, int count,
					     struct list_head *list, struct page **pages);
unsigned long __wrap_alloc_pages_bulk_noprof(gfp_t gfp, int node, nodemask_t *nodes, int count,
					     struct list_head *list, struct page **pages);

static int ob_alloc_run(gfp_t gfp, struct page **pages, int count)
{
	unsigned int order = min(ilog2(count), MAX_PAGE_ORDER);
	gfp_t attempt = (gfp & ~(__GFP_RECLAIM | __GFP_NOFAIL)) | __GFP_NOWARN;
	struct page *page = NULL;
	int i;

	for (; order && !page; order -= !page)
		page = alloc_pages(attempt, order);
	if (!page)
		return 0;
	split_page(page, order);
	for (i = 0; i < 1 << order; i++)
		pages[i] = page + i;
	return 1 << order;
}

unsigned long __wrap_alloc_pages_bulk_noprof(gfp_t gfp, int node, nodemask_t *nodes, int count,
					     struct list_head *list, struct page **pages)
{
	int done = 0, run;

	if (list || !pages || count < 2 || memchr_inv(pages, 0, count * sizeof(*pages)))
		return __real_alloc_pages_bulk_noprof(gfp, node, nodes, count, list, pages);
	while (count - done >= 2) {
		run = ob_alloc_run(gfp, pages + done, count - done);
		if (!run)
			break;
		done += run;
	}
	/* A caller that may wait gets all pages: memory grows meanwhile. */
	while (done < count && gfpflags_allow_blocking(gfp)) {
		pages[done] = alloc_pages(gfp, 0);
		if (!pages[done])
			break;
		done++;
	}
	if (done)
		return done;
	return __real_alloc_pages_bulk_noprof(gfp, node, nodes, count, list, pages);
}
#endif

unsigned long __wrap_memblock_estimated_nr_free_pages(void);

/*
 * Linux derives its limit of threads from the memory at boot. Here that is little: the rest comes
 * when it is needed.
 *
 * Dodge memblock_estimated_nr_free_pages: the most threads follow from the memory that there may
 * be, not from that at boot.
 */
unsigned long __init __wrap_memblock_estimated_nr_free_pages(void)
{
	return PHYS_PFN(ob_machine.memory);
}

unsigned long __wrap_nr_free_buffer_pages(void);

/*
 * The network sizes the buffers of its sockets by this, once, at boot.
 *
 * Dodge nr_free_buffer_pages: the most memory of sockets and of buffer heads follows from the
 * memory that there may be, not from that at boot.
 */
unsigned long __wrap_nr_free_buffer_pages(void)
{
	return PHYS_PFN(ob_machine.memory);
}

void __real_si_meminfo(struct sysinfo *info);
void __wrap_si_meminfo(struct sysinfo *info);

/*
 * Linux derives the most watches of epoll, inotify and fanotify from this, once, at boot. Later the
 * total has the memory that may come: grow.c.
 *
 * Dodge si_meminfo: the most watches of epoll, inotify and fanotify follow from the memory that
 * there may be, not from that at boot.
 */
void __wrap_si_meminfo(struct sysinfo *info)
{
	__real_si_meminfo(info);
	if (system_state < SYSTEM_RUNNING)
		info->totalram = PHYS_PFN(ob_machine.memory);
}
