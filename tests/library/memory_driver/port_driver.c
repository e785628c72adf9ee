// SPDX-License-Identifier: GPL-2.0-only
/*
 * Drives the devices of tests/library/port_device.c as drivers of real devices do. Loading fails if
 * a check does; the kernel's log says which.
 */
#include <linux/dma-mapping.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include "expect.h"
#include "port_registers.h"

static char *what = "";
module_param(what, charp, 0);
MODULE_PARM_DESC(what, "ports, no-ports, bounce or covered");

static unsigned long window;
module_param(window, ulong, 0);
MODULE_PARM_DESC(window, "the first port that the bus may give to devices");

static unsigned long long required;
module_param(required, ullong, 0);
MODULE_PARM_DESC(required, "the mask that covers all RAM");

static unsigned int bits;
module_param(bits, uint, 0);
MODULE_PARM_DESC(bits, "of a mask that covers all RAM");

/* The first port of BAR 0. */
static unsigned long base;

static int check_sizes(const u8 __iomem *mapped)
{
	outl(0x44332211, base);
	outw(0x6655, base + 4);
	outb(0x77, base + 6);
	outb(0x88, base + 7);
	EXPECT(inl(base) == 0x44332211 && inl(base + 2) == 0x66554433);
	EXPECT(inw(base + 4) == 0x6655 && inw(base + 5) == 0x7766);
	EXPECT(inb(base) == 0x11 && inb(base + 7) == 0x88);
	EXPECT(ioread8(mapped + 6) == 0x77 && ioread16(mapped + 2) == 0x4433);
	EXPECT(ioread32(mapped + 4) == 0x88776655 && ioread32be(mapped) == 0x11223344);
	EXPECT(ioread64(mapped) == 0x8877665544332211);
	return 0;
}

static int check_mapped_writes(u8 __iomem *mapped)
{
	u8 bytes[8];
	int i;

	iowrite64(0x1122334455667788, mapped + 8);
	EXPECT(inl(base + 8) == 0x55667788 && inl(base + 12) == 0x11223344);
	iowrite32(0xaabbccdd, mapped + 8);
	iowrite16(0xeeff, mapped + 12);
	iowrite8(0x99, mapped + 14);
	memcpy_fromio(bytes, mapped + 8, sizeof(bytes));
	for (i = 0; i < sizeof(bytes); i++)
		EXPECT(bytes[i] == inb(base + 8 + i));
	EXPECT(inl(base + 8) == 0xaabbccdd && inw(base + 12) == 0xeeff && inb(base + 14) == 0x99);
	return 0;
}

/* Each form of access reads the values that another form has written. */
static int check_strings(u8 __iomem *mapped)
{
	unsigned long port = base + PORT_QUEUE;
	u8 out[16], in[16];
	int i;

	for (i = 0; i < sizeof(out); i++)
		out[i] = 7 * i + 1;
	outsb(port, out, 16);
	insw(port, in, 8);
	EXPECT(!memcmp(in, out, 16));
	outsw(port, out + 2, 7);
	insb(port, in, 14);
	EXPECT(!memcmp(in, out + 2, 14));
	outsl(port, out + 4, 3);
	ioread16_rep(mapped + PORT_QUEUE, in, 6);
	EXPECT(!memcmp(in, out + 4, 12));
	iowrite8_rep(mapped + PORT_QUEUE, out + 8, 8);
	insl(port, in, 2);
	EXPECT(!memcmp(in, out + 8, 8));
	return 0;
}

static int check_regions(void)
{
	void __iomem *mapped = ioport_map(LEGACY_PORT, 1);

	EXPECT(request_region(LEGACY_PORT, 1, "port_driver"));
	EXPECT(!request_region(LEGACY_PORT, 1, "another driver"));
	EXPECT(!request_region(base + 4, 1, "another driver"));
	EXPECT(!request_region(0xffff, 2, "another driver"));
	outb(0x5a, LEGACY_PORT);
	EXPECT(mapped && ioread8(mapped) == 0x5a && inb(LEGACY_PORT) == 0x5a);
	ioport_unmap(mapped);
	release_region(LEGACY_PORT, 1);
	EXPECT(request_region(LEGACY_PORT, 1, "another driver"));
	release_region(LEGACY_PORT, 1);
	return 0;
}

/* No device is there, or no port. */
static int check_absent(unsigned long port)
{
	u8 bytes[4] = {};

	EXPECT(inb(port) == 0xff && inw(port) == 0xffff && inl(port) == 0xffffffff);
	outb(0, port);
	outl(0, port);
	insb(port, bytes, sizeof(bytes));
	EXPECT(!memchr_inv(bytes, 0xff, sizeof(bytes)));
	return 0;
}

static int check_ports(struct pci_dev *device)
{
	u8 __iomem *mapped = pci_iomap(device, 0, 0);
	int error;

	EXPECT(pci_resource_flags(device, 0) & IORESOURCE_IO);
	EXPECT(base >= window && pci_resource_len(device, 0) == PORT_COUNT);
	EXPECT(pci_bus_address(device, 0) == base);
	EXPECT(mapped);
	error = check_sizes(mapped) ?: check_mapped_writes(mapped) ?: check_strings(mapped) ?:
		check_regions() ?: check_absent(base + PORT_COUNT) ?: check_absent(0xffff);
	pci_iounmap(device, mapped);
	return error;
}

/* More than the bounce buffers that the kernel has at boot. */
#define PAGES 640

struct memory {
	struct device *device;
	struct page *high[PAGES];	/* above 4 GB of the bus */
	dma_addr_t bus[PAGES];
	u8 *coherent;			/* a page that the device reaches */
	dma_addr_t coherent_bus;
};

static int set_mask(struct device *device, unsigned int bits)
{
	return dma_set_mask_and_coherent(device, DMA_BIT_MASK(bits));
}

static int transfer(u32 command, dma_addr_t bus)
{
	EXPECT(bus != DMA_MAPPING_ERROR && bus + PAGE_SIZE - 1 <= U32_MAX);
	outl(bus, base + PORT_ADDRESS);
	outl(PAGE_SIZE, base + PORT_LENGTH);
	outl(command, base + PORT_COMMAND);
	EXPECT(!inl(base + PORT_RESULT));
	return 0;
}

/* The device has the bytes of the page. */
static int check_device(const struct memory *memory, const struct page *page)
{
	int error = transfer(COMMAND_FROM_DEVICE, memory->coherent_bus);

	if (error)
		return error;
	EXPECT(!memcmp(memory->coherent, page_address(page), PAGE_SIZE));
	return 0;
}

static int check_to_device(const struct memory *memory, struct page *page)
{
	struct device *device = memory->device;
	dma_addr_t bus;
	int error;

	memset(page_address(page), 0x21, PAGE_SIZE);
	bus = dma_map_page(device, page, 0, PAGE_SIZE, DMA_TO_DEVICE);
	error = transfer(COMMAND_TO_DEVICE, bus) ?: check_device(memory, page);
	if (error)
		return error;
	dma_sync_single_for_cpu(device, bus, PAGE_SIZE, DMA_TO_DEVICE);
	memset(page_address(page), 0x43, PAGE_SIZE);
	dma_sync_single_for_device(device, bus, PAGE_SIZE, DMA_TO_DEVICE);
	error = transfer(COMMAND_TO_DEVICE, bus) ?: check_device(memory, page);
	dma_unmap_page(device, bus, PAGE_SIZE, DMA_TO_DEVICE);
	return error;
}

/* The page gets the device's bytes when the driver asks for them, not before. */
static int check_from_device(const struct memory *memory, struct page *page)
{
	u8 *bytes = page_address(page);
	dma_addr_t bus;
	int error;

	memset(bytes, 0, PAGE_SIZE);
	bus = dma_map_page(memory->device, page, 0, PAGE_SIZE, DMA_FROM_DEVICE);
	error = transfer(COMMAND_FROM_DEVICE, bus);
	if (error)
		return error;
	EXPECT(!memchr_inv(bytes, 0, PAGE_SIZE));
	dma_sync_single_for_cpu(memory->device, bus, PAGE_SIZE, DMA_FROM_DEVICE);
	EXPECT(!memchr_inv(bytes, 0x43, PAGE_SIZE));
	memset(bytes, 0, PAGE_SIZE);
	dma_unmap_page(memory->device, bus, PAGE_SIZE, DMA_FROM_DEVICE);
	EXPECT(!memchr_inv(bytes, 0x43, PAGE_SIZE));
	return 0;
}

/* Linux adds bounce buffers when none is left. */
static int check_many(struct memory *memory)
{
	int i, error = 0;

	for (i = 0; i < PAGES; i++) {
		memset(page_address(memory->high[i]), i, PAGE_SIZE);
		memory->bus[i] = dma_map_page(memory->device, memory->high[i], 0, PAGE_SIZE,
					      DMA_TO_DEVICE);
		EXPECT(!dma_mapping_error(memory->device, memory->bus[i]));
	}
	for (i = 0; i < PAGES; i++) {
		error = error ?: transfer(COMMAND_TO_DEVICE, memory->bus[i]) ?:
			check_device(memory, memory->high[i]);
		dma_unmap_page(memory->device, memory->bus[i], PAGE_SIZE, DMA_TO_DEVICE);
	}
	return error;
}

/* A list of pages with and without bounce buffers. */
static int check_list(const struct memory *memory)
{
	struct page *low = alloc_page(GFP_KERNEL | GFP_DMA32);
	struct scatterlist list[2];

	EXPECT(low);
	sg_init_table(list, 2);
	sg_set_page(&list[0], low, PAGE_SIZE, 0);
	sg_set_page(&list[1], memory->high[0], PAGE_SIZE, 0);
	EXPECT(dma_map_sg(memory->device, list, 2, DMA_TO_DEVICE) == 2);
	EXPECT(sg_dma_address(&list[0]) <= U32_MAX && sg_dma_address(&list[1]) <= U32_MAX);
	dma_unmap_sg(memory->device, list, 2, DMA_TO_DEVICE);
	__free_page(low);
	return 0;
}

#define BLOCKS 1024
#define BLOCK (8 * PAGE_SIZE)

/*
 * Whatever Linux's allocator has at hand, the device gets what its mask covers. All BLOCKS are more
 * than the memory at boot: RAM has to grow for the device.
 */
static int check_coherent(struct device *device, unsigned int bits, int wanted)
{
	static void *memory[BLOCKS];
	static dma_addr_t bus[BLOCKS];
	bool above = false;
	int i, count = 0;

	for (i = 0; i < wanted; i++) {
		memory[i] = dma_alloc_coherent(device, BLOCK, &bus[i], GFP_KERNEL);
		count += !!memory[i];
		above |= memory[i] && bus[i] + BLOCK - 1 > DMA_BIT_MASK(bits);
	}
	for (i = 0; i < wanted; i++)
		if (memory[i])
			dma_free_coherent(device, BLOCK, memory[i], bus[i]);
	EXPECT(count == wanted && !above);
	return 0;
}

/* A mask that covers what is below 4 GB, but no more. */
static int check_narrow_mask(const struct memory *memory)
{
	dma_addr_t bus;

	EXPECT(!set_mask(memory->device, 29));
	bus = dma_map_page(memory->device, memory->high[0], 0, PAGE_SIZE, DMA_TO_DEVICE);
	EXPECT(bus != DMA_MAPPING_ERROR && bus + PAGE_SIZE - 1 <= DMA_BIT_MASK(29));
	dma_unmap_page(memory->device, bus, PAGE_SIZE, DMA_TO_DEVICE);
	return check_coherent(memory->device, 29, 64);
}

/* Takes memory until it has the pages, and gives back what is below 4 GB. */
static int find_high(struct memory *memory)
{
	struct page *page, *next;
	LIST_HEAD(low);
	int count = 0;
	dma_addr_t bus;

	while (count < PAGES && (page = alloc_page(GFP_KERNEL))) {
		bus = dma_map_page(memory->device, page, 0, PAGE_SIZE, DMA_TO_DEVICE);
		EXPECT(!dma_mapping_error(memory->device, bus));
		dma_unmap_page(memory->device, bus, PAGE_SIZE, DMA_TO_DEVICE);
		if (bus > U32_MAX)
			memory->high[count++] = page;
		else
			list_add(&page->lru, &low);
	}
	list_for_each_entry_safe(page, next, &low, lru)
		__free_page(page);
	EXPECT(count == PAGES);
	return 0;
}

/* RAM that grows is of no use to those who want memory below 4 GB, and have used it up. */
static int check_no_growth(void)
{
	struct zone *normal = &NODE_DATA(0)->node_zones[ZONE_NORMAL];
	unsigned long before = normal->present_pages;
	struct page *page, *next;
	LIST_HEAD(taken);

	while ((page = alloc_page(GFP_KERNEL | GFP_DMA32 | __GFP_NORETRY | __GFP_NOWARN)))
		list_add(&page->lru, &taken);
	list_for_each_entry_safe(page, next, &taken, lru)
		__free_page(page);
	EXPECT(normal->present_pages == before);
	return 0;
}

static int check_memory(struct memory *memory)
{
	struct device *device = memory->device;
	int error;

	EXPECT(set_mask(device, 28) == -EIO);
	EXPECT(!set_mask(device, 64));
	EXPECT(!dma_addressing_limited(device));
	error = find_high(memory);
	if (error)
		return error;
	EXPECT(!set_mask(device, 32));
	EXPECT(dma_addressing_limited(device));
	EXPECT(dma_max_mapping_size(device) < SZ_1M);
	memory->coherent = dma_alloc_coherent(device, PAGE_SIZE, &memory->coherent_bus, GFP_KERNEL);
	EXPECT(memory->coherent);
	error = check_to_device(memory, memory->high[0]) ?:
		check_from_device(memory, memory->high[1]) ?: check_many(memory) ?:
		check_list(memory) ?: check_coherent(device, 32, 64) ?: check_no_growth();
	dma_free_coherent(device, PAGE_SIZE, memory->coherent, memory->coherent_bus);
	return error ?: check_narrow_mask(memory);
}

static int check_bounce(struct pci_dev *device)
{
	struct memory *memory = kzalloc(sizeof(*memory), GFP_KERNEL);
	int i, error;

	EXPECT(memory);
	EXPECT(dma_get_required_mask(&device->dev) == required);
	memory->device = &device->dev;
	pci_set_master(device);
	error = check_memory(memory);
	pci_clear_master(device);
	for (i = 0; i < PAGES; i++)
		if (memory->high[i])
			__free_page(memory->high[i]);
	kfree(memory);
	return error;
}

/* The mask covers all RAM: nothing is bounced. */
static int check_covered(struct pci_dev *device)
{
	struct page *page = alloc_page(GFP_KERNEL);
	dma_addr_t bus;

	EXPECT(page && !set_mask(&device->dev, bits));
	EXPECT(!dma_addressing_limited(&device->dev));
	EXPECT(dma_max_mapping_size(&device->dev) == SIZE_MAX);
	bus = dma_map_page(&device->dev, page, 0, PAGE_SIZE, DMA_TO_DEVICE);
	EXPECT(!dma_mapping_error(&device->dev, bus));
	dma_unmap_page(&device->dev, bus, PAGE_SIZE, DMA_TO_DEVICE);
	__free_page(page);
	return check_coherent(&device->dev, bits, BLOCKS);
}

static int result = -ENODEV;

static int check(struct pci_dev *device)
{
	base = pci_resource_start(device, 0);
	if (!strcmp(what, "ports"))
		return check_ports(device);
	if (!strcmp(what, "bounce"))
		return check_bounce(device);
	if (!strcmp(what, "covered"))
		return check_covered(device);
	return -EINVAL;
}

static int probe(struct pci_dev *device, const struct pci_device_id *id)
{
	int error = pci_enable_device(device);

	if (error)
		return error;
	error = pci_request_regions(device, "port_driver");
	if (!error) {
		result = check(device);
		pci_release_regions(device);
	}
	pci_disable_device(device);
	return error ?: result;
}

static const struct pci_device_id devices[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_REDHAT_QUMRANET, 0x10f1) },
	{ }
};

static struct pci_driver driver = {
	.name = "port_driver",
	.id_table = devices,
	.probe = probe,
};

static int __init start(void)
{
	int error;

	/* The host has no ports, so no device with ports. */
	if (!strcmp(what, "no-ports"))
		return check_absent(LEGACY_PORT);
	error = pci_register_driver(&driver);
	if (!error && result)
		pci_unregister_driver(&driver);
	return error ?: result;
}
module_init(start);

static void __exit stop(void)
{
	if (strcmp(what, "no-ports"))
		pci_unregister_driver(&driver);
}
module_exit(stop);

MODULE_DESCRIPTION("Driver of a test's devices that consist of ports");
MODULE_LICENSE("GPL");
