/* SPDX-License-Identifier: GPL-2.0-only */
/* Interrupts of devices: irq.c. */
#ifndef OUTBOARD_CORE_IRQ_H
#define OUTBOARD_CORE_IRQ_H

#include <linux/irqdomain.h>

struct ob_vcpu;

/*
 * All interrupts of the hypercall interface. Messages raise the interrupts that are allocated in
 * this domain. irq_create_mapping() maps those that are always open, and those of virtio devices.
 */
extern struct irq_domain *ob_irq_domain;

/*
 * A number that nobody else uses, for a virtio device: irq_create_mapping() maps it, and
 * irq_dispose_mapping() frees it. -ENOSPC, -ENOMEM. Both functions may sleep.
 */
int ob_irq_number_alloc(void);
/* For a number that was not mapped. */
void ob_irq_number_free(u32 interrupt);

/* Handles the interrupts that were raised on the vCPU. The vCPU has interrupts off. */
void ob_devices_run(struct ob_vcpu *vcpu);

/*
 * Disables the interrupts that drivers have opened, and masks them in the host, for ever. No
 * handler begins after this, but one may still run. Does not sleep.
 */
void ob_irqs_stop(void);

#endif
