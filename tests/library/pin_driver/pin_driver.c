// SPDX-License-Identifier: GPL-2.0-only
/*
 * Drives the devices of tests/library/pin_bus.c, and counts in their registers what its handlers
 * have served.
 */
#include <linux/interrupt.h>
#include <linux/kstrtox.h>
#include <linux/module.h>
#include <linux/pci.h>

/* Registers and modes: pin_bus.h. */
enum {
	EVENTS = 0x80, MODE = 0x81, WANTED = 0x82, VECTORS = 0x83, NOT_MINE = 0x84, SERVED = 0x90,
};
#define MESSAGES 1
#define THREADED 2

#define VECTORS_MOST 32

struct vector {
	struct pci_dev *device;
	int index;
};

static u8 get(struct pci_dev *device, int number)
{
	u8 value;

	pci_read_config_byte(device, number, &value);
	return value;
}

static void count(struct pci_dev *device, int number)
{
	pci_write_config_byte(device, number, get(device, number) + 1);
}

static irqreturn_t serve(int irq, void *argument)
{
	struct vector *vector = argument;
	struct pci_dev *device = vector->device;
	u8 events = get(device, EVENTS);

	if (!device->msi_enabled && !events) {
		count(device, NOT_MINE);
		return IRQ_NONE;
	}
	count(device, SERVED + vector->index);
	pci_write_config_byte(device, EVENTS, events);
	return IRQ_HANDLED;
}

static int request(struct vector *vector)
{
	struct pci_dev *device = vector->device;
	int irq = pci_irq_vector(device, vector->index);

	if (get(device, MODE) & THREADED)
		return request_threaded_irq(irq, NULL, serve, IRQF_SHARED | IRQF_ONESHOT,
					    pci_name(device), vector);
	return request_irq(irq, serve, IRQF_SHARED, pci_name(device), vector);
}

static void release(struct pci_dev *device, int requested)
{
	struct vector *vectors = pci_get_drvdata(device);

	while (requested--)
		free_irq(pci_irq_vector(device, requested), &vectors[requested]);
	pci_free_irq_vectors(device);
	pci_disable_device(device);
	pci_write_config_byte(device, VECTORS, 0);
}

static int start(struct pci_dev *device, struct vector *vectors)
{
	bool messages = get(device, MODE) & MESSAGES;
	int i, error, got = pci_alloc_irq_vectors(device, 1, get(device, WANTED),
						  messages ? PCI_IRQ_MSI : PCI_IRQ_INTX);

	if (got < 0) {
		release(device, 0);
		return got;
	}
	for (i = 0; i < got; i++) {
		vectors[i] = (struct vector) { .device = device, .index = i };
		error = request(&vectors[i]);
		if (error) {
			release(device, i);
			return error;
		}
	}
	pci_set_master(device);
	pci_write_config_byte(device, VECTORS, got);
	return 0;
}

static int probe(struct pci_dev *device, const struct pci_device_id *id)
{
	struct vector *vectors = devm_kcalloc(&device->dev, VECTORS_MOST, sizeof(*vectors),
					      GFP_KERNEL);
	int error = vectors ? pci_enable_device(device) : -ENOMEM;

	if (error)
		return error;
	pci_set_drvdata(device, vectors);
	return start(device, vectors);
}

static void remove(struct pci_dev *device)
{
	release(device, get(device, VECTORS));
}

/* Disables and enables the first interrupt. */
static ssize_t enabled_store(struct device *dev, struct device_attribute *attribute,
			     const char *value, size_t size)
{
	int irq = pci_irq_vector(to_pci_dev(dev), 0);
	bool enabled;
	int error = kstrtobool(value, &enabled);

	if (error)
		return error;
	if (enabled)
		enable_irq(irq);
	else
		disable_irq(irq);
	return size;
}
static DEVICE_ATTR_WO(enabled);

static struct attribute *pin_attrs[] = { &dev_attr_enabled.attr, NULL };
ATTRIBUTE_GROUPS(pin);

static const struct pci_device_id devices[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_REDHAT_QUMRANET, 0x10f1) },
	{ }
};

static struct pci_driver pin_driver = {
	.name = "pin_driver",
	.id_table = devices,
	.probe = probe,
	.remove = remove,
	.dev_groups = pin_groups,
};
module_pci_driver(pin_driver);

MODULE_DESCRIPTION("Driver of a test's devices that interrupt by pins and messages");
MODULE_LICENSE("GPL");
