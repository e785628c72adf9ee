// SPDX-License-Identifier: GPL-2.0-only
/*
 * Drives the device of tests/library/memory_device.c as drivers of real devices do. Loading fails
 * if a check does; the kernel's log says which.
 */
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/reboot.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <outboard/hypercall.h>
#include "expect.h"

static char *what = "";
module_param(what, charp, 0);
MODULE_PARM_DESC(what, "memory, masks, resource or halt");

static unsigned int seed;
module_param(seed, uint, 0);

static bool mapped;
module_param(mapped, bool, 0);
MODULE_PARM_DESC(mapped, "the host maps the device's memory");

static unsigned long long required;
module_param(required, ullong, 0);
MODULE_PARM_DESC(required, "the mask that covers all RAM");

/* Byte `i` of the device as the test has filled it; as it is left, all bits are inverted. */
static u8 byte_at(size_t i)
{
	return seed + i * 7 + i / 256;
}

static u64 word_at(size_t i, size_t size)
{
	u64 word = 0;

	while (size--)
		word = word << 8 | byte_at(i + size);
	return word;
}

static int check_reads(const u8 __iomem *base, size_t size)
{
	size_t i;

	for (i = 0; i < size; i += i % PAGE_SIZE < 16 || i % PAGE_SIZE >= PAGE_SIZE - 16 ? 1 : 8) {
		EXPECT(readb(base + i) == byte_at(i));
		if (i % 2 == 0)
			EXPECT(readw(base + i) == (u16)word_at(i, 2));
		if (i % 4 == 0)
			EXPECT(ioread32(base + i) == (u32)word_at(i, 4));
		if (i % 8 == 0)
			EXPECT(readq(base + i) == word_at(i, 8));
	}
	return 0;
}

/* Each page with accesses of another size. */
static int check_writes(u8 __iomem *base, size_t size)
{
	size_t i, step;

	for (i = 0; i < size; i += step) {
		step = 1 << i / PAGE_SIZE % 4;
		if (step == 1)
			writeb(~byte_at(i), base + i);
		else if (step == 2)
			writew(~word_at(i, 2), base + i);
		else if (step == 4)
			iowrite32(~word_at(i, 4), base + i);
		else
			writeq(~word_at(i, 8), base + i);
	}
	return 0;
}

/* Ranges that begin and end anywhere, over borders of pages. */
static int check_copies(u8 __iomem *base, size_t size, u8 *buffer)
{
	const size_t from = PAGE_SIZE - 3, length = 2 * PAGE_SIZE + 5;
	size_t i;

	memcpy_fromio(buffer, base, size);
	for (i = 0; i < size; i++)
		EXPECT(buffer[i] == (u8)~byte_at(i));
	memset_io(base + from, 0x5a, length);
	memcpy_fromio(buffer, base, size);
	for (i = 0; i < size; i++)
		EXPECT(buffer[i] == (i - from < length ? 0x5a : (u8)~byte_at(i)));
	for (i = 0; i < length; i++)
		buffer[i] = ~byte_at(from + i);
	memcpy_toio(base + from, buffer, length);
	return 0;
}

/* The host got these flags with the last mapping. A host that maps nothing has kept none. */
static bool has_mapped(struct pci_dev *device, u32 flags)
{
	u32 last;

	pci_read_config_dword(device, 0x60, &last);
	return !mapped || last == flags;
}

/* Parts of the BAR, and what is no device memory. */
static int check_ioremap(struct pci_dev *device, const u8 __iomem *base, void *ram)
{
	phys_addr_t start = pci_resource_start(device, 0);
	resource_size_t size = pci_resource_len(device, 0);
	u8 __iomem *part = ioremap(start + PAGE_SIZE, 2 * PAGE_SIZE);

	EXPECT(part && has_mapped(device, OB_IOMEM_UNCACHED));
	EXPECT(readl(part + PAGE_SIZE - 4) == readl(base + 2 * PAGE_SIZE - 4));
	iounmap(part);
	part = ioremap_wc(start + size - 24, 24);
	EXPECT(part && has_mapped(device, OB_IOMEM_WRITE_COMBINING));
	EXPECT(readq(part + 16) == readq(base + size - 8));
	iounmap(part);
	part = ioremap_wt(start, size);
	EXPECT(part && has_mapped(device, OB_IOMEM_UNCACHED));
	iounmap(part);
	EXPECT(!ioremap(start, 0));
	EXPECT(!ioremap(start, SIZE_MAX));
	EXPECT(!ioremap(0, PAGE_SIZE));
	EXPECT(!ioremap(virt_to_phys(ram), PAGE_SIZE));
	EXPECT(!ioremap(start - pci_bus_address(device, 0), PAGE_SIZE));
	return 0;
}

/* A pointer, or nothing. */
static int check_memremap(struct pci_dev *device, void *ram)
{
	static const unsigned long kinds[] = {
		MEMREMAP_WB, MEMREMAP_WT, MEMREMAP_WC, MEMREMAP_WB | MEMREMAP_WC,
	};
	phys_addr_t start = pci_resource_start(device, 0) + PAGE_SIZE;
	u8 *bytes;
	int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		bytes = memremap(start, 2 * PAGE_SIZE, kinds[i]);
		EXPECT(!bytes == !mapped);
		EXPECT(has_mapped(device, kinds[i] == MEMREMAP_WC ? OB_IOMEM_WRITE_COMBINING :
				  OB_IOMEM_UNCACHED));
		if (!bytes)
			continue;
		EXPECT(bytes[PAGE_SIZE] == byte_at(2 * PAGE_SIZE));
		bytes[PAGE_SIZE] ^= 0xff;
		EXPECT(bytes[PAGE_SIZE] == (u8)~byte_at(2 * PAGE_SIZE));
		bytes[PAGE_SIZE] ^= 0xff;
		memunmap(bytes);
	}
	bytes = devm_memremap(&device->dev, start, PAGE_SIZE, MEMREMAP_WC);
	EXPECT(IS_ERR(bytes) == !mapped);
	if (mapped)
		devm_memunmap(&device->dev, bytes);
	/* RAM of the boot is no resource of Linux's, so Linux takes it for device memory. */
	EXPECT(!memremap(OB_PHYS_OFFSET, PAGE_SIZE, MEMREMAP_WB));
	EXPECT(!memremap(OB_PHYS_OFFSET, PAGE_SIZE, MEMREMAP_WC));
	/* The test counts hypercalls that unmap what is not mapped. */
	memunmap(ram);
	return 0;
}

static int check_memory(struct pci_dev *device)
{
	size_t size = pci_resource_len(device, 0);
	u8 __iomem *base = pci_iomap(device, 0, 0);
	u8 *buffer = kmalloc(size, GFP_KERNEL);
	int error;

	EXPECT(base && buffer && size >= 4 * PAGE_SIZE);
	error = check_reads(base, size) ?: check_ioremap(device, base, buffer) ?:
		check_memremap(device, buffer) ?: check_writes(base, size) ?:
		check_copies(base, size, buffer);
	kfree(buffer);
	pci_iounmap(device, base);
	return error;
}

static int set_mask(struct device *device, unsigned int bits)
{
	return dma_set_mask_and_coherent(device, DMA_BIT_MASK(bits));
}

static dma_addr_t map_page(struct device *device, struct page *page)
{
	dma_addr_t bus = dma_map_page(device, page, 0, PAGE_SIZE, DMA_FROM_DEVICE);

	if (dma_mapping_error(device, bus))
		return DMA_MAPPING_ERROR;
	dma_unmap_page(device, bus, PAGE_SIZE, DMA_FROM_DEVICE);
	return bus;
}

/* The mask of before covers what has come since. */
static int check_all_pages(struct device *device, struct list_head *pages, struct page **low,
			   struct page **high)
{
	struct page *page;
	dma_addr_t bus, highest = 0;

	list_for_each_entry(page, pages, lru) {
		bus = map_page(device, page);
		EXPECT(bus != DMA_MAPPING_ERROR && bus + PAGE_SIZE - 1 <= required);
		highest = max(highest, bus);
		*(bus <= U32_MAX ? low : high) = page;
	}
	EXPECT(*low && *high);
	/* RAM has grown to where the mask is needed. */
	EXPECT(highest > required / 2);
	EXPECT(dma_get_required_mask(device) == required);
	return 0;
}

#define ALLOCATIONS 64

/*
 * Returns how many of ALLOCATIONS pages were available, all of them at the same time. -EINVAL: one
 * was above the mask.
 */
static int allocate_coherent(struct device *device)
{
	static dma_addr_t bus[ALLOCATIONS];
	static void *memory[ALLOCATIONS];
	int i, count = 0;
	bool above = false;

	for (i = 0; i < ALLOCATIONS; i++) {
		memory[i] = dma_alloc_coherent(device, PAGE_SIZE, &bus[i], GFP_KERNEL);
		if (!memory[i])
			continue;
		count++;
		above |= bus[i] + PAGE_SIZE - 1 > U32_MAX;
	}
	for (i = 0; i < ALLOCATIONS; i++)
		if (memory[i])
			dma_free_coherent(device, PAGE_SIZE, memory[i], bus[i]);
	return above ? -EINVAL : count;
}

/* The test has all low pages at first, and then frees some of them. */
static int check_coherent(struct device *device, struct list_head *pages)
{
	struct page *page, *next;
	int freed = 0, before, after;

	before = allocate_coherent(device);
	list_for_each_entry_safe(page, next, pages, lru) {
		if (freed == ALLOCATIONS || map_page(device, page) == DMA_MAPPING_ERROR)
			continue;
		list_del(&page->lru);
		__free_page(page);
		freed++;
	}
	after = allocate_coherent(device);
	EXPECT(before >= 0 && before < ALLOCATIONS);
	EXPECT(freed == ALLOCATIONS && after > before);
	return 0;
}

/* There is no bounce buffer: the mapping of what the device does not reach is an error. */
static int check_narrow_mask(struct device *device, struct list_head *pages, struct page *low,
			     struct page *high)
{
	struct scatterlist list[2];

	EXPECT(!set_mask(device, 32));
	EXPECT(dma_addressing_limited(device));
	EXPECT(map_page(device, low) <= U32_MAX);
	EXPECT(map_page(device, high) == DMA_MAPPING_ERROR);
	sg_init_table(list, 2);
	sg_set_page(&list[0], low, PAGE_SIZE, 0);
	sg_set_page(&list[1], high, PAGE_SIZE, 0);
	EXPECT(!dma_map_sg(device, list, 2, DMA_TO_DEVICE));
	return check_coherent(device, pages);
}

static int check_masks(struct pci_dev *pci_device)
{
	struct device *device = &pci_device->dev;
	struct page *page, *next, *low = NULL, *high = NULL;
	unsigned long i;
	LIST_HEAD(pages);
	int error;

	EXPECT(dma_get_required_mask(device) == required);
	/* The last page of RAM is in reach now, but not all pages are. */
	EXPECT(set_mask(device, 31) == -EIO);
	EXPECT(!set_mask(device, fls64(required)));
	EXPECT(!dma_addressing_limited(device));
	for (i = 0; i < SZ_64M / PAGE_SIZE; i++) {
		page = alloc_page(GFP_KERNEL);
		if (!page)
			break;
		list_add(&page->lru, &pages);
	}
	error = check_all_pages(device, &pages, &low, &high) ?:
		check_narrow_mask(device, &pages, low, high);
	list_for_each_entry_safe(page, next, &pages, lru)
		__free_page(page);
	return error;
}

/* Device memory as the target of another device. */
static int check_resource(struct pci_dev *pci_device)
{
	struct device *device = &pci_device->dev;
	phys_addr_t start = pci_resource_start(pci_device, 0);
	dma_addr_t bus;
	void *ram = (void *)get_zeroed_page(GFP_KERNEL);

	EXPECT(ram);
	EXPECT(!set_mask(device, 64));
	bus = dma_map_resource(device, start + PAGE_SIZE, PAGE_SIZE, DMA_BIDIRECTIONAL, 0);
	EXPECT(bus == pci_bus_address(pci_device, 0) + PAGE_SIZE);
	dma_unmap_resource(device, bus, PAGE_SIZE, DMA_BIDIRECTIONAL, 0);
	EXPECT(dma_map_resource(device, virt_to_phys(ram), PAGE_SIZE, DMA_TO_DEVICE, 0) ==
	       DMA_MAPPING_ERROR);
	EXPECT(dma_map_resource(device, start, SIZE_MAX, DMA_TO_DEVICE, 0) == DMA_MAPPING_ERROR);
	/* Beyond the mask. dma_set_mask() refuses such a mask, as it does not cover RAM. */
	*device->dma_mask = DMA_BIT_MASK(31);
	EXPECT(dma_map_resource(device, start, PAGE_SIZE, DMA_TO_DEVICE, 0) == DMA_MAPPING_ERROR);
	free_page((unsigned long)ram);
	return 0;
}

/* Bytes of the device's memory, all 0 at first. The test reads them after the halt. */
enum {
	HALT_NOTIFIED,		/* 1: the notifier ran once, before all of the following */
	HALT_SHUT_DOWN,		/* 1: the device was shut down after that, in a halting system */
	HALT_INTERRUPTED,	/* 1: the handler ran after that */
	HALT_BYTES
};
static u8 __iomem *halt_bytes;

static int halt_notify(struct notifier_block *block, unsigned long action, void *unused)
{
	writeb(readb(halt_bytes + HALT_NOTIFIED) + 1, halt_bytes + HALT_NOTIFIED);
	return NOTIFY_DONE;
}
static struct notifier_block halt_notifier = { .notifier_call = halt_notify };

static void shut_down(struct pci_dev *device)
{
	if (halt_bytes && readb(halt_bytes + HALT_NOTIFIED) == 1 && system_state > SYSTEM_RUNNING)
		writeb(1, halt_bytes + HALT_SHUT_DOWN);
}

/* A driver that goes on after its device was shut down. */
static irqreturn_t halt_interrupt(int irq, void *device)
{
	writeb(readb(halt_bytes + HALT_SHUT_DOWN), halt_bytes + HALT_INTERRUPTED);
	pci_set_master(device);
	return IRQ_HANDLED;
}

/* The device stays as it is until the halt. */
static int check_halt(struct pci_dev *device)
{
	int i;

	halt_bytes = pci_iomap(device, 0, 0);
	EXPECT(halt_bytes);
	for (i = 0; i < HALT_BYTES; i++)
		writeb(0, halt_bytes + i);
	pci_set_master(device);
	EXPECT(pci_alloc_irq_vectors(device, 1, 1, PCI_IRQ_MSI) == 1);
	EXPECT(!request_irq(pci_irq_vector(device, 0), halt_interrupt, 0, "memory_driver", device));
	return register_reboot_notifier(&halt_notifier);
}

/* For the test of barriers, which looks at the instructions. Nothing calls these two. */
void memory_driver_ordered(u8 __iomem *bytes);
void memory_driver_unordered(u8 __iomem *bytes);

void memory_driver_ordered(u8 __iomem *bytes)
{
	__raw_writeb(1, bytes);
	wmb();
	rmb();
	mb();
}

void memory_driver_unordered(u8 __iomem *bytes)
{
	writeb(readb(bytes), bytes + 1);
	dma_wmb();
	dma_rmb();
	smp_wmb();
	smp_rmb();
}

static int result = -ENODEV;

static int check(struct pci_dev *device)
{
	if (!strcmp(what, "memory"))
		return check_memory(device);
	if (!strcmp(what, "masks"))
		return check_masks(device);
	if (!strcmp(what, "resource"))
		return check_resource(device);
	if (!strcmp(what, "halt"))
		return check_halt(device);
	return -EINVAL;
}

static int probe(struct pci_dev *device, const struct pci_device_id *id)
{
	int error = pci_enable_device(device);

	if (error)
		return error;
	error = pci_request_regions(device, "memory_driver");
	if (!error) {
		result = check(device);
		if (halt_bytes)
			return result;
		pci_release_regions(device);
	}
	pci_disable_device(device);
	return error ?: result;
}

static const struct pci_device_id devices[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_REDHAT_QUMRANET, 0x10f0) },
	{ }
};

static struct pci_driver driver = {
	.name = "memory_driver",
	.id_table = devices,
	.probe = probe,
	.shutdown = shut_down,
};

static int __init start(void)
{
	int error = pci_register_driver(&driver);

	if (!error && result)
		pci_unregister_driver(&driver);
	return error ?: result;
}
module_init(start);

static void __exit stop(void)
{
	pci_unregister_driver(&driver);
}
module_exit(stop);

MODULE_DESCRIPTION("Driver of a test's device that consists of memory");
MODULE_LICENSE("GPL");
