/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_IRQ_H
#define _ASM_OUTBOARD_IRQ_H

/* At boot. Descriptors are made when sources of interrupts are opened: core/irq.c. */
#define NR_IRQS 32

#include <asm-generic/irq.h>
#endif
