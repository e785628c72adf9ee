// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's PCI bus: a host bridge whose configuration space, memory and messages are hypercalls.
 * Linux's own code does the rest: it scans the bus, and assigns addresses in the host's windows to
 * the devices.
 *
 *   driver -> PCI-MSI domain (mask bits of the device) -> ob_irq_domain (core/irq.c) -> host
 *
 * Pins of devices: pci_pin.c.
 */
#include <linux/irq.h>
#include <linux/msi.h>
#include <linux/pci.h>
#include <asm/host.h>
#include "../core/dma.h"
#include "../core/driver.h"
#include "../core/host.h"
#include "../core/irq.h"
#include "../core/machine.h"
#include "pci.h"

#define OB_WINDOWS_MOST 8

/* There is one bus. Its parts live as long as the kernel. */
struct ob_pci {
	struct resource buses;
	struct resource windows[OB_WINDOWS_MOST];
	struct pci_host_bridge *bridge;	/* NULL: the kernel does not use the bus */
	bool stopped;			/* no device becomes a bus master any more */
};
static struct ob_pci ob_pci;

static int ob_pci_config_read(struct pci_bus *bus, unsigned int function, int offset, int size,
			      u32 *value)
{
	*value = ob_host_pci_read(ob_host, PCI_DEVID(bus->number, function), offset, size);
	return PCIBIOS_SUCCESSFUL;
}

/* Linux calls this with its lock of configuration space held. */
static int ob_pci_config_write(struct pci_bus *bus, unsigned int function, int offset, int size,
			       u32 value)
{
	/* The offset is a multiple of the size: the bit is in the first byte. */
	if (offset == PCI_COMMAND && READ_ONCE(ob_pci.stopped))
		value &= ~PCI_COMMAND_MASTER;
	ob_host_pci_write(ob_host, PCI_DEVID(bus->number, function), offset, size, value);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops ob_pci_operations = {
	.read = ob_pci_config_read,
	.write = ob_pci_config_write,
};

/* Some devices have no mask bits, so the parent masks, too. */
static void ob_msi_mask(struct irq_data *data)
{
	pci_msi_mask_irq(data);
	irq_chip_mask_parent(data);
}

static void ob_msi_unmask(struct irq_data *data)
{
	irq_chip_unmask_parent(data);
	pci_msi_unmask_irq(data);
}

static struct irq_chip ob_msi_chip = {
	.name = "PCI-MSI",
	.irq_ack = irq_chip_ack_parent,
	.irq_mask = ob_msi_mask,
	.irq_unmask = ob_msi_unmask,
	.irq_retrigger = irq_chip_retrigger_hierarchy,
};

static struct msi_domain_info ob_msi_info = {
	.flags = MSI_FLAG_USE_DEF_DOM_OPS | MSI_FLAG_USE_DEF_CHIP_OPS | MSI_FLAG_PCI_MSIX |
		 MSI_FLAG_MULTI_PCI_MSI,
	.chip = &ob_msi_chip,
};

static bool __init ob_pci_is_ports(const struct ob_pci_window *window)
{
	return window->flags & OB_PCI_PORTS;
}

static bool __init ob_pci_window_is_right(u32 index, const struct ob_pci_window *window)
{
	bool ports = ob_pci_is_ports(window);
	u64 end = ports ? IO_SPACE_LIMIT + 1 : OB_IOMEM_BASE;

	if (index >= OB_WINDOWS_MOST || !window->size || window->address >= end ||
	    window->size > end - window->address || window->flags > OB_PCI_PORTS) {
		pr_err("window %u of the PCI bus is wrong\n", index);
		return false;
	}
	if (ports && !ob_host_groups.ports) {
		pr_err("window %u of the PCI bus is for ports, but the host has none\n", index);
		return false;
	}
	if (!ports && ob_dma_overlaps(window->address, window->size)) {
		pr_err("window %u of the PCI bus overlaps RAM on the bus\n", index);
		return false;
	}
	return true;
}

static bool __init ob_pci_window_overlaps(u32 index, const struct ob_pci_window *window)
{
	struct ob_pci_window other;
	u32 i;

	for (i = 0; i < index && !ob_host_pci_window(ob_host, i, &other); i++) {
		if (ob_pci_is_ports(window) == ob_pci_is_ports(&other) &&
		    window->address < other.address + other.size &&
		    other.address < window->address + window->size) {
			pr_err("windows %u and %u of the PCI bus overlap\n", i, index);
			return true;
		}
	}
	return false;
}

static int __init ob_pci_check_windows(void)
{
	struct ob_pci_window window;
	u32 i;

	for (i = 0; !ob_host_pci_window(ob_host, i, &window); i++)
		if (!ob_pci_window_is_right(i, &window) || ob_pci_window_overlaps(i, &window))
			return -EINVAL;
	return 0;
}

static int __init ob_pci_add_window(struct resource *resource, const struct ob_pci_window *window)
{
	bool ports = ob_pci_is_ports(window);
	u64 base = ports ? 0 : OB_IOMEM_BASE;

	*resource = (struct resource) {
		.name = "PCI",
		.start = base + window->address,
		.end = base + window->address + window->size - 1,
		.flags = ports ? IORESOURCE_IO : IORESOURCE_MEM,
	};
	if (window->flags & OB_PCI_PREFETCHABLE)
		resource->flags |= IORESOURCE_PREFETCH;
	pci_add_resource_offset(&ob_pci.bridge->windows, resource, base);
	return request_resource(ports ? &ioport_resource : &iomem_resource, resource);
}

static int __init ob_pci_add_windows(void)
{
	struct ob_pci_window window;
	int error;
	u32 i;

	for (i = 0; !ob_host_pci_window(ob_host, i, &window); i++) {
		error = ob_pci_add_window(&ob_pci.windows[i], &window);
		if (error)
			return error;
	}
	ob_pci.buses = (struct resource) { .name = "PCI", .end = 255, .flags = IORESOURCE_BUS };
	pci_add_resource(&ob_pci.bridge->windows, &ob_pci.buses);
	return 0;
}

static int __init ob_pci_add_messages(void)
{
	struct fwnode_handle *node = irq_domain_alloc_named_fwnode("outboard-pci");
	struct irq_domain *domain = NULL;

	if (node)
		domain = pci_msi_create_irq_domain(node, &ob_msi_info, ob_irq_domain);
	if (!domain)
		return -ENOMEM;
	dev_set_msi_domain(&ob_pci.bridge->dev, domain);
	return 0;
}

/* Why the kernel does not use the host's bus; NULL: the kernel uses the bus. */
static const char * __init ob_pci_refusal(void)
{
	if (!ob_host_groups.pci_is_whole)
		return "the host lacks calls of the groups pci, interrupts, iomem or dma";
	if (!ob_machine.ram_is_pinned)
		return "the host has not pinned RAM";
	if (!ob_dma_reaches_ram())
		return "no device reaches RAM";
	return NULL;
}

static int __init ob_pci_probe(void)
{
	ob_pci.bridge = pci_alloc_host_bridge(0);
	if (!ob_pci.bridge)
		return -ENOMEM;
	ob_pci.bridge->ops = &ob_pci_operations;
	ob_pci.bridge->swizzle_irq = pci_common_swizzle;
	ob_pci.bridge->map_irq = ob_pci_map_irq;
	return ob_pci_add_windows() ?: ob_pci_add_messages() ?: pci_host_probe(ob_pci.bridge);
}

static int ob_pci_stop(void)
{
	struct pci_dev *device = NULL;

	/* Timers and kernel threads of drivers still run, and may call pci_set_master(). */
	WRITE_ONCE(ob_pci.stopped, true);
	while ((device = pci_get_device(PCI_ANY_ID, PCI_ANY_ID, device)))
		pci_clear_master(device);
	ob_irqs_stop();
	return 0;
}

static struct ob_driver ob_pci_driver = {
	.has_hardware = true,
	.stop = ob_pci_stop,
};

static int __init ob_pci_start(void)
{
	const char *reason = ob_pci_refusal();
	int error;

	if (!ob_host_groups.pci)
		return 0;
	if (reason) {
		pr_err("the PCI bus is not used: %s\n", reason);
		return 0;
	}
	error = ob_pci_check_windows() ?: ob_pci_probe();
	if (error) {
		ob_pci.bridge = NULL;
		pr_err("the PCI bus is not used: error %d\n", error);
		return error;
	}
	ob_driver_register(&ob_pci_driver);
	return 0;
}
subsys_initcall_sync(ob_pci_start);
