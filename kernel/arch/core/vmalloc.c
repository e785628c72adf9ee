// SPDX-License-Identifier: GPL-2.0-only
/*
 * vmalloc on a host that cannot map memory.
 *
 * Such a host has no windows. vmalloc gets its memory from the slab allocator then, as in a kernel
 * without CONFIG_MMU: neighbouring pages, 4 MB at most, and nothing if no such run is free. No
 * address is one of vmalloc's, so kvfree() and is_vmalloc_addr() are right as they are.
 *
 *   refused                                               by
 *   vmap(), vm_map_ram(), vmalloc_user(),                 Linux, since the window is empty
 *   vmalloc_huge(), vmalloc_node(), vzalloc_node(),
 *   __vmalloc_node()
 *   executable memory, so modules                         this file, unless RAM can be executed
 *   more memory for per-CPU data than Linux sets aside    this file
 *   at boot
 */
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/page.h>
#include "machine.h"

static bool ob_has_window(void)
{
	return ob_layout.vmalloc_end;
}

static void *ob_contiguous(unsigned long size, gfp_t gfp)
{
	if (size > KMALLOC_MAX_SIZE)
		return NULL;
	gfp = (gfp | __GFP_NOWARN) & ~(__GFP_HIGHMEM | __GFP_DMA32);
	return kmalloc_noprof(PAGE_ALIGN(size), gfp);
}

/*
 * Dodge __vmalloc_node_range_noprof, __vmalloc_noprof, vmalloc_noprof, vzalloc_noprof: a host that
 * cannot map memory gives neighbouring pages.
 */
void *__real___vmalloc_node_range_noprof(unsigned long size, unsigned long align,
					 unsigned long start, unsigned long end, gfp_t gfp,
					 pgprot_t protection, unsigned long flags, int node,
					 const void *caller);
void *__wrap___vmalloc_node_range_noprof(unsigned long size, unsigned long align,
					 unsigned long start, unsigned long end, gfp_t gfp,
					 pgprot_t protection, unsigned long flags, int node,
					 const void *caller);

void *__wrap___vmalloc_node_range_noprof(unsigned long size, unsigned long align,
					 unsigned long start, unsigned long end, gfp_t gfp,
					 pgprot_t protection, unsigned long flags, int node,
					 const void *caller)
{
	if (ob_has_window())
		return __real___vmalloc_node_range_noprof(size, align, start, end, gfp, protection,
							  flags, node, caller);
	if (align > PAGE_SIZE)
		return NULL;
	if (pgprot_val(protection) & _PAGE_EXECUTE && !ob_machine.ram_is_executable)
		return NULL;
	return ob_contiguous(size, gfp);
}

void *__real___vmalloc_noprof(unsigned long size, gfp_t gfp);
void *__wrap___vmalloc_noprof(unsigned long size, gfp_t gfp);

void *__wrap___vmalloc_noprof(unsigned long size, gfp_t gfp)
{
	return ob_has_window() ? __real___vmalloc_noprof(size, gfp) : ob_contiguous(size, gfp);
}

void *__real_vmalloc_noprof(unsigned long size);
void *__wrap_vmalloc_noprof(unsigned long size);

void *__wrap_vmalloc_noprof(unsigned long size)
{
	return ob_has_window() ? __real_vmalloc_noprof(size) : ob_contiguous(size, GFP_KERNEL);
}

void *__real_vzalloc_noprof(unsigned long size);
void *__wrap_vzalloc_noprof(unsigned long size);

void *__wrap_vzalloc_noprof(unsigned long size)
{
	return ob_has_window() ? __real_vzalloc_noprof(size) :
				 ob_contiguous(size, GFP_KERNEL | __GFP_ZERO);
}

void __real_vfree(const void *address);
void __wrap_vfree(const void *address);

/* Dodge vfree: it gets back what was not vmalloc's own on a host that cannot map memory. */
void __wrap_vfree(const void *address)
{
	if (ob_has_window())
		__real_vfree(address);
	else
		kfree(address);
}

#ifdef CONFIG_SMP
struct vm_struct **__real_pcpu_get_vm_areas(const unsigned long *offsets, const size_t *sizes,
					    int count, size_t align);
struct vm_struct **__wrap_pcpu_get_vm_areas(const unsigned long *offsets, const size_t *sizes,
					    int count, size_t align);

/* Dodge pcpu_get_vm_areas: Linux would warn on a host that cannot map memory. */
struct vm_struct **__wrap_pcpu_get_vm_areas(const unsigned long *offsets, const size_t *sizes,
					    int count, size_t align)
{
	return ob_has_window() ? __real_pcpu_get_vm_areas(offsets, sizes, count, align) : NULL;
}
#endif
