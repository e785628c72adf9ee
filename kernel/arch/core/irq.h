/* SPDX-License-Identifier: GPL-2.0-only */
/* Interrupts of devices: irq.c. */
#ifndef OUTBOARD_CORE_IRQ_H
#define OUTBOARD_CORE_IRQ_H

#include <linux/irqdomain.h>

struct ob_vcpu;

/*
 * All interrupts of the hypercall interface. One that is allocated here is raised by a message.
 * Those that are always open are mapped: irq_create_mapping().
 */
extern struct irq_domain *ob_irq_domain;

/* Handles what was raised on the vCPU. Interrupts are off. */
void ob_devices_run(struct ob_vcpu *vcpu);

/*
 * Disables the interrupts that drivers have opened, and masks them in the host. No handler runs
 * when this returns. Sleeps.
 */
void ob_irqs_stop(void);

#endif
