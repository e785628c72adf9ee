// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts of devices. A number of the hypercall interface is a hardware number of one domain.
 *
 * Any host thread raises an interrupt: it sets the number's bit in a vCPU's bitmap, then the bit
 * OB_PENDING_DEVICE of that vCPU. The vCPU takes the bits and handles them. It drops a number
 * without a Linux interrupt. If an interrupt is disabled, Linux notes it. When the interrupt is
 * enabled, Linux raises it again by ob_irq_retrigger().
 */
#include <linux/bitmap.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/msi.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <asm/host.h>
#include "irq.h"
#include "machine.h"
#include "vcpu.h"

struct irq_domain *ob_irq_domain __ro_after_init;

/* Numbers in use. */
static DECLARE_BITMAP(ob_irq_numbers, OB_INTERRUPTS) = { [0] = GENMASK(OB_INTERRUPT_FIRST - 1, 0) };
static DEFINE_MUTEX(ob_irq_numbers_lock);

/* The kernel halts: no interrupt is opened or unmasked any more. */
static bool ob_irqs_stopped;

/* The vCPUs that handle each interrupt, a bit for each. 0: any vCPU does. */
static u64 ob_irq_vcpus[OB_INTERRUPTS];
static_assert(NR_CPUS <= 64);

/* Of those that ob_irq_alloc() has opened. */
static struct ob_interrupt_message ob_irq_messages[OB_INTERRUPTS];

static void ob_device_set(struct ob_vcpu *vcpu, u32 interrupt)
{
	__atomic_fetch_or(&vcpu->devices[interrupt / 64], 1ULL << interrupt % 64, __ATOMIC_SEQ_CST);
}

/*
 * A device that works on the thread of its driver, in a notification, interrupts that thread's
 * vCPU: it wakes no other thread.
 */
static struct ob_vcpu *ob_device_vcpu(u32 interrupt)
{
	u64 vcpus = READ_ONCE(ob_irq_vcpus[interrupt]);
	struct ob_vcpu *vcpu;

	if (interrupt == OB_INTERRUPT_BLOCK && !vcpus)
		return ob_vcpu_for_disks();
	vcpu = ob_vcpu_of_caller() ?: ob_vcpu_to_interrupt();
	return !vcpus || vcpus >> (vcpu - ob_vcpus) & 1 ? vcpu : &ob_vcpus[__ffs(vcpus)];
}

void ob_kernel_interrupt(u32 interrupt)
{
	struct ob_vcpu *vcpu;

	if (interrupt >= OB_INTERRUPTS || READ_ONCE(ob_machine.stopping))
		return;
	vcpu = ob_device_vcpu(interrupt);
	ob_device_set(vcpu, interrupt);
	ob_raise(vcpu, OB_PENDING_DEVICE);
}

void ob_devices_run(struct ob_vcpu *vcpu)
{
	unsigned int word, bit;

	for (word = 0; word < ARRAY_SIZE(vcpu->devices); word++) {
		unsigned long bits = READ_ONCE(vcpu->devices[word]);

		if (bits)
			bits = xchg(&vcpu->devices[word], 0);
		for_each_set_bit(bit, &bits, 64)
			generic_handle_domain_irq(ob_irq_domain, word * 64 + bit);
	}
}

static void ob_irq_ack(struct irq_data *data)
{
}

static void ob_irq_mask(struct irq_data *data)
{
	if (data->hwirq >= OB_INTERRUPT_FIRST)
		ob_host_interrupt_mask(ob_host, data->hwirq);
}

/* ob_irqs_stop() takes the same lock of the interrupt, after it has set the flag. */
static void ob_irq_unmask(struct irq_data *data)
{
	if (data->hwirq >= OB_INTERRUPT_FIRST && !READ_ONCE(ob_irqs_stopped))
		ob_host_interrupt_unmask(ob_host, data->hwirq);
}

/*
 * An interrupt came while it was disabled. This vCPU handles it as soon as interrupts are enabled.
 */
static int ob_irq_retrigger(struct irq_data *data)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();

	ob_device_set(vcpu, data->hwirq);
	__atomic_fetch_or(&vcpu->pending, OB_PENDING_DEVICE, __ATOMIC_SEQ_CST);
	return 1;
}

/* A level interrupt was handled, or ignored. The host raises it again if its line is asserted. */
static void ob_irq_end(struct irq_data *data)
{
	ob_host_interrupt_end(ob_host, data->hwirq);
}

static int ob_irq_set_affinity(struct irq_data *data, const struct cpumask *mask, bool force)
{
	bool any = !irqd_affinity_is_managed(data) && cpumask_subset(cpu_online_mask, mask);
	struct cpumask online;
	u64 vcpus;

	if (!cpumask_and(&online, mask, cpu_online_mask))
		return -EINVAL;
	vcpus = *cpumask_bits(&online);
	WRITE_ONCE(ob_irq_vcpus[data->hwirq], any ? 0 : vcpus);
	if (data->hwirq >= OB_INTERRUPT_FIRST)
		ob_host_interrupt_affinity(ob_host, data->hwirq, any ? OB_ANY_VCPU : vcpus);
	irq_data_update_effective_affinity(data, any ? mask : &online);
	return IRQ_SET_MASK_OK;
}

static void ob_irq_compose(struct irq_data *data, struct msi_msg *msg)
{
	const struct ob_interrupt_message *message = irq_data_get_irq_chip_data(data);

	msg->address_hi = upper_32_bits(message->address);
	msg->address_lo = lower_32_bits(message->address);
	msg->data = message->data;
}

static struct irq_chip ob_irq_chip = {
	.name = "outboard",
	.irq_ack = ob_irq_ack,
	.irq_mask = ob_irq_mask,
	.irq_unmask = ob_irq_unmask,
	.irq_eoi = ob_irq_end,
	.irq_retrigger = ob_irq_retrigger,
	.irq_set_affinity = ob_irq_set_affinity,
	.irq_compose_msi_msg = ob_irq_compose,
};

/*
 * Maps an interrupt that is always open, or one of a virtio device or a pin. Interrupts are edges:
 * one that arrives while its handler runs makes the handler run again. The caller may then give a
 * pin another handler.
 */
static int ob_irq_map(struct irq_domain *domain, unsigned int irq, irq_hw_number_t interrupt)
{
	irq_set_chip_and_handler(irq, &ob_irq_chip, handle_edge_irq);
	return 0;
}

int ob_irq_numbers_alloc(unsigned int count)
{
	int interrupt;

	guard(mutex)(&ob_irq_numbers_lock);
	interrupt = bitmap_find_free_region(ob_irq_numbers, OB_INTERRUPTS, order_base_2(count));
	return interrupt < 0 ? -ENOSPC : interrupt;
}

void ob_irq_numbers_free(u32 interrupt, unsigned int count)
{
	guard(mutex)(&ob_irq_numbers_lock);
	bitmap_clear(ob_irq_numbers, interrupt, count);
}

static int ob_irq_open(u32 interrupt, unsigned int count)
{
	struct ob_interrupt_message *message = &ob_irq_messages[interrupt];
	unsigned int i;
	int error;

	if (READ_ONCE(ob_irqs_stopped))
		return -ENODEV;
	error = ob_host_interrupt_open(ob_host, interrupt, count, message);
	for (i = 1; !error && i < count; i++) {
		message[i] = message[0];
		message[i].data += i;
	}
	return error;
}

/* PCI's MSI has powers of two. The kernel closes those above `count` again. */
static int ob_irq_alloc(struct irq_domain *domain, unsigned int irq, unsigned int count, void *info)
{
	unsigned int i, opened = roundup_pow_of_two(count);
	int interrupt, error;

	interrupt = ob_irq_numbers_alloc(opened);
	if (interrupt < 0)
		return interrupt;
	error = ob_irq_open(interrupt, opened);
	if (error) {
		ob_irq_numbers_free(interrupt, opened);
		return error;
	}
	for (i = 0; i < count; i++)
		irq_domain_set_info(domain, irq + i, interrupt + i, &ob_irq_chip,
				    &ob_irq_messages[interrupt + i], handle_edge_irq, NULL, NULL);
	for (i = count; i < opened; i++)
		ob_host_interrupt_close(ob_host, interrupt + i);
	ob_irq_numbers_free(interrupt + count, opened - count);
	return 0;
}

/* Linux calls this for all mappings. Those of virtio devices have no message. */
static void ob_irq_free(struct irq_domain *domain, unsigned int irq, unsigned int count)
{
	struct irq_data *data = irq_domain_get_irq_data(domain, irq);

	if (irq_data_get_irq_chip_data(data))
		ob_host_interrupt_close(ob_host, data->hwirq);
	/* A vCPU that handles a late message may have looked up `data`, which the caller frees. */
	synchronize_rcu();
	WRITE_ONCE(ob_irq_vcpus[data->hwirq], 0);
	ob_irq_numbers_free(data->hwirq, 1);
	irq_domain_reset_irq_data(data);
}

static const struct irq_domain_ops ob_irq_operations = {
	.map = ob_irq_map,
	.alloc = ob_irq_alloc,
	.free = ob_irq_free,
};

/*
 * Does not wait for handlers: one that polls its device may never return, as that device no longer
 * reaches RAM. A driver that has disabled its interrupt may have left it unmasked in the host.
 */
void ob_irqs_stop(void)
{
	unsigned int interrupt, irq;

	/* An interrupt that is mapped later finds the flag set, and stays masked. */
	smp_store_mb(ob_irqs_stopped, true);
	for (interrupt = OB_INTERRUPT_FIRST; interrupt < OB_INTERRUPTS; interrupt++) {
		irq = irq_find_mapping(ob_irq_domain, interrupt);
		if (!irq)
			continue;
		disable_irq_nosync(irq);
		ob_host_interrupt_mask(ob_host, interrupt);
	}
}

/* Linux allocates descriptors when drivers need them. */
int __init arch_probe_nr_irqs(void)
{
	return 0;
}

void __init init_IRQ(void)
{
	ob_irq_domain = irq_domain_add_tree(NULL, &ob_irq_operations, NULL);
	if (!ob_irq_domain)
		panic("no memory for interrupts");
}
