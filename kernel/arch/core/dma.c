// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where devices find RAM: the host's extents. Linux's dma-direct looks up each buffer here.
 *
 * Linux takes neighbouring pages for one buffer. So no buffer may reach from one extent into
 * another extent whose bus address is elsewhere. The last page of the first extent stays out of
 * use: no run of pages then contains the border. At boot that page is reserved. In memory that is
 * added later, it does not come online.
 *
 * If the first extent is below 4 GB of the bus, it is ZONE_DMA32. It holds coherent memory for
 * devices with a mask of 32 bits and, if RAM is above 4 GB, too, Linux's bounce buffers (SWIOTLB).
 * Without them, a buffer that the mask of its device does not cover is not mapped, and the driver
 * gets an error.
 */
#include <linux/dma-direct.h>
#include <linux/export.h>
#include <linux/memblock.h>
#include <linux/memory_hotplug.h>
#include <linux/swiotlb.h>
#include <asm/host.h>
#include <asm/io.h>
#include "dma.h"
#include "host.h"
#include "machine.h"
#include "memory.h"

#define OB_EXTENTS_MOST 16
/* Linux adds more when all bounce buffers are in use. */
#define OB_BOUNCE_AT_BOOT SZ_2M

struct ob_dma {
	struct ob_dma_extent extents[OB_EXTENTS_MOST];	/* physical addresses are Linux's */
	unsigned int count;		/* 0: no device reaches RAM */
	u64 low_end;			/* physical; of the first extent if that is ZONE_DMA32 */
};
static struct ob_dma ob_dma __ro_after_init;

dma_addr_t phys_to_dma(struct device *device, phys_addr_t address)
{
	unsigned int i;

	for (i = 0; i < ob_dma.count; i++)
		if (address - ob_dma.extents[i].physical < ob_dma.extents[i].size)
			return address - ob_dma.extents[i].physical + ob_dma.extents[i].bus;
	return DMA_MAPPING_ERROR;
}
EXPORT_SYMBOL_GPL(phys_to_dma);

/*
 * Linux also asks for a device's highest address, to choose a zone: a limit up to 32 bits means
 * ZONE_DMA32, a higher one means any zone first, and then ZONE_DMA32.
 */
static phys_addr_t ob_dma_limit(dma_addr_t address)
{
	if (!ob_dma.low_end)
		return -1;
	return address <= DMA_BIT_MASK(32) ? DMA_BIT_MASK(32) : DMA_BIT_MASK(63);
}

phys_addr_t dma_to_phys(struct device *device, dma_addr_t address)
{
	unsigned int i;

	for (i = 0; i < ob_dma.count; i++)
		if (address - ob_dma.extents[i].bus < ob_dma.extents[i].size)
			return address - ob_dma.extents[i].bus + ob_dma.extents[i].physical;
	return ob_dma_limit(address);
}
EXPORT_SYMBOL_GPL(dma_to_phys);

u64 ob_dma_low_end(void)
{
	return ob_dma.low_end;
}

bool ob_dma_reaches_ram(void)
{
	return ob_dma.count;
}

/* The highest bus address of RAM, once RAM has grown to its ceiling. */
static dma_addr_t ob_dma_highest(void)
{
	u64 rest = ob_machine.memory, part;
	dma_addr_t highest = 0;
	unsigned int i;

	if (!ob_dma.count)
		return DMA_MAPPING_ERROR;
	for (i = 0; i < ob_dma.count && rest; i++, rest -= part) {
		part = min(rest, ob_dma.extents[i].size);
		highest = max(highest, ob_dma.extents[i].bus + part - 1);
	}
	return highest;
}

static bool ob_dma_bounces(void)
{
	return ob_dma.low_end && ob_dma_highest() > DMA_BIT_MASK(32);
}

u64 __wrap_dma_direct_get_required_mask(struct device *device);
int __wrap_dma_direct_supported(struct device *device, u64 mask);
dma_addr_t __real_dma_direct_map_resource(struct device *device, phys_addr_t address, size_t size,
					  enum dma_data_direction direction,
					  unsigned long attributes);
dma_addr_t __wrap_dma_direct_map_resource(struct device *device, phys_addr_t address, size_t size,
					  enum dma_data_direction direction,
					  unsigned long attributes);

/*
 * Linux looks at the last page of RAM. But drivers keep the mask while RAM grows, and an earlier
 * extent may have a higher bus address.
 *
 * Dodge dma_direct_get_required_mask, dma_direct_supported: a mask must cover RAM up to its
 * ceiling, in all extents, or the first extent if that has bounce buffers.
 */
u64 __wrap_dma_direct_get_required_mask(struct device *device)
{
	return DMA_BIT_MASK(fls64(ob_dma_highest()));
}

/* A mask of 32 bits is always accepted, as everywhere in Linux. */
int __wrap_dma_direct_supported(struct device *device, u64 mask)
{
	if (ob_dma_bounces() && mask >= phys_to_dma(device, ob_dma.low_end - 1))
		return true;
	return mask >= DMA_BIT_MASK(32) || mask >= ob_dma_highest();
}

/*
 * Dodge dma_direct_map_resource: device memory has its bus address above OB_IOMEM_BASE, not its
 * physical address.
 */
dma_addr_t __wrap_dma_direct_map_resource(struct device *device, phys_addr_t address, size_t size,
					  enum dma_data_direction direction,
					  unsigned long attributes)
{
	u64 bus = address - OB_IOMEM_BASE;

	if (address < OB_IOMEM_BASE || bus >= OB_IOMEM_BASE || size > OB_IOMEM_BASE - bus) {
		dev_err_once(device, "cannot map %pap for DMA: it is no device memory\n", &address);
		return DMA_MAPPING_ERROR;
	}
	return __real_dma_direct_map_resource(device, bus, size, direction, attributes);
}

/* The page frame at the end of extent `i` that stays out of use. 0: there is none. */
static unsigned long ob_dma_border(unsigned int i)
{
	const struct ob_dma_extent *extent = &ob_dma.extents[i];

	if (i + 1 >= ob_dma.count || extent[1].bus == extent->bus + extent->size)
		return 0;
	return PHYS_PFN(extent[1].physical) - 1;
}

bool __init ob_dma_overlaps(u64 bus, u64 size)
{
	unsigned int i;

	for (i = 0; i < ob_dma.count; i++)
		if (bus < ob_dma.extents[i].bus + ob_dma.extents[i].size &&
		    ob_dma.extents[i].bus < bus + size)
			return true;
	return false;
}

static bool __init ob_dma_add(const struct ob_dma_extent *extent, u64 end)
{
	u64 bits = extent->physical | extent->bus | extent->size;

	if (ob_dma.count == OB_EXTENTS_MOST || extent->physical != end || !extent->size ||
	    !IS_ALIGNED(bits, OB_MEMORY_STEP) ||
	    extent->physical + extent->size < extent->size ||
	    extent->bus + extent->size < extent->size ||
	    ob_dma_overlaps(extent->bus, extent->size))
		return false;
	ob_dma.extents[ob_dma.count] = *extent;
	ob_dma.extents[ob_dma.count++].physical += OB_PHYS_OFFSET;
	return true;
}

static bool __init ob_dma_read(void)
{
	struct ob_dma_extent extent;
	u64 end = 0;
	u32 i;

	for (i = 0; !ob_host_dma_extent(ob_host, i, &extent); i++) {
		if (!ob_dma_add(&extent, end))
			return false;
		end += extent.size;
	}
	return end >= ob_machine.memory;
}

static void __init ob_dma_zone_set(void)
{
	const struct ob_dma_extent *low = &ob_dma.extents[0];

	if (low->bus + low->size <= SZ_4G)
		ob_dma.low_end = min(low->physical + low->size, SZ_4G);
	else
		/* Linux then asks for ZONE_DMA, which means any memory, never for ZONE_DMA32. */
		zone_dma_limit = DMA_BIT_MASK(64);
}

static int __init ob_dma_bounce_setup(void)
{
	int error = 0;

	if (ob_dma_bounces())
		error = swiotlb_init_late(OB_BOUNCE_AT_BOOT, GFP_KERNEL | GFP_DMA32, NULL);
	if (error)
		pr_err("there are no bounce buffers for devices: error %d\n", error);
	return error;
}
core_initcall(ob_dma_bounce_setup);

#ifdef CONFIG_MEMORY_HOTPLUG
static bool ob_dma_has_border(unsigned long start, unsigned long count)
{
	unsigned int i;

	for (i = 0; i < ob_dma.count; i++)
		if (ob_dma_border(i) - start < count)
			return true;
	return false;
}

/* Halves the block until the part with the border is one page. That page stays offline. */
static void ob_dma_online(struct page *page, unsigned int order)
{
	if (!ob_dma_has_border(page_to_pfn(page), 1UL << order)) {
		generic_online_page(page, order);
	} else if (order) {
		ob_dma_online(page, order - 1);
		ob_dma_online(page + (1UL << (order - 1)), order - 1);
	}
}

static int __init ob_dma_online_set(void)
{
	return ob_dma.count > 1 ? set_online_page_callback(ob_dma_online) : 0;
}
early_initcall(ob_dma_online_set);
#endif

void __init ob_dma_setup(void)
{
	unsigned int i;

	/* Devices reach pinned RAM only, and a snapshot must not contain the host's extents. */
	if (!ob_host_groups.dma || !ob_machine.ram_is_pinned)
		return;
	if (!ob_dma_read()) {
		pr_err("no device reaches RAM: the host's extents are wrong, or do not cover it\n");
		ob_dma = (struct ob_dma) {};
		return;
	}
	ob_dma_zone_set();
	for (i = 0; i < ob_dma.count; i++)
		if (ob_dma_border(i))
			memblock_reserve(PFN_PHYS(ob_dma_border(i)), PAGE_SIZE);
}
