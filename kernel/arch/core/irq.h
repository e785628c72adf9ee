/* SPDX-License-Identifier: GPL-2.0-only */
/* Interrupts of devices: irq.c. */
#ifndef OUTBOARD_CORE_IRQ_H
#define OUTBOARD_CORE_IRQ_H

#include <linux/irqdomain.h>

struct ob_vcpu;

/*
 * All interrupts of the hypercall interface. Messages raise the interrupts that are allocated in
 * this domain. irq_create_mapping() maps those that are always open, and those of virtio devices
 * and of pins.
 */
extern struct irq_domain *ob_irq_domain;

/*
 * Returns the first of `count` numbers that nobody else uses, a multiple of `count`, which is a
 * power of two. For a virtio device or a pin: irq_create_mapping() maps a number, and
 * irq_dispose_mapping() frees it. -ENOSPC. Both functions may sleep.
 */
int ob_irq_numbers_alloc(unsigned int count);
/* For numbers that are not mapped. `count`: any, also 0. */
void ob_irq_numbers_free(u32 interrupt, unsigned int count);

/* Handles the interrupts that were raised on the vCPU. The vCPU has interrupts off. */
void ob_devices_run(struct ob_vcpu *vcpu);

/*
 * Disables the interrupts that drivers have opened, and masks them in the host, for ever. No
 * handler begins after this, but one may still run. Does not sleep.
 */
void ob_irqs_stop(void);

#endif
