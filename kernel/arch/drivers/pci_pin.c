// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pins of PCI devices. Each pin of the host's interrupt controllers that devices reach has one
 * interrupt, which its devices share. A pin stays open until the kernel halts.
 *
 *   INTA of a device -> pin on the root bus (Linux) -> pin of a controller (host) -> interrupt
 */
#include <linux/irq.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <asm/host.h>
#include "../core/irq.h"
#include "pci.h"

struct ob_pin {
	struct list_head link;
	u32 number, flags;		/* as the host states them */
	unsigned int irq;		/* Linux's */
};
static LIST_HEAD(ob_pins);
static DEFINE_MUTEX(ob_pins_lock);

/*
 * A handler with a thread needs no IRQCHIP_EOI_THREADED: the kernel ends a level interrupt before
 * the thread serves the device, but keeps it masked, and the host raises no masked one.
 */
static int ob_pin_open(struct ob_pin *pin)
{
	int interrupt = ob_irq_numbers_alloc(1), error;

	if (interrupt < 0)
		return interrupt;
	pin->irq = irq_create_mapping(ob_irq_domain, interrupt);
	if (!pin->irq) {
		ob_irq_numbers_free(interrupt, 1);
		return -ENOMEM;
	}
	if (pin->flags & OB_PIN_LEVEL) {
		irq_set_handler(pin->irq, handle_fasteoi_irq);
		irq_set_status_flags(pin->irq, IRQ_LEVEL);
	}
	error = ob_host_interrupt_open_pin(ob_host, interrupt, pin->number, pin->flags);
	if (error)
		irq_dispose_mapping(pin->irq);
	return error;
}

static int ob_pin_irq(u32 number, u32 flags)
{
	struct ob_pin *pin;
	int error;

	guard(mutex)(&ob_pins_lock);
	list_for_each_entry(pin, &ob_pins, link)
		if (pin->number == number)
			return pin->flags == flags ? pin->irq : -EBUSY;
	pin = kmalloc(sizeof(*pin), GFP_KERNEL);
	if (!pin)
		return -ENOMEM;
	pin->number = number;
	pin->flags = flags;
	error = ob_pin_open(pin);
	if (error) {
		kfree(pin);
		return error;
	}
	list_add(&pin->link, &ob_pins);
	return pin->irq;
}

int ob_pci_map_irq(const struct pci_dev *device, u8 slot, u8 pin)
{
	const struct pci_dev *root = device;
	u32 number, flags;
	int irq;

	while (!pci_is_root_bus(root->bus))
		root = root->bus->self;
	irq = ob_host_pci_pin(ob_host, PCI_DEVID(root->bus->number, root->devfn), pin, &number,
			      &flags);
	if (!irq)
		irq = ob_pin_irq(number, flags);
	if (irq > 0)
		return irq;
	if (irq == -ENOENT)
		pci_info(device, "no interrupt by pin: the host does not route INT%c of %s\n",
			 '@' + pin, pci_name(root));
	else
		pci_err(device, "no interrupt by pin: INT%c of %s: error %d\n", '@' + pin,
			pci_name(root), irq);
	return 0;
}
