/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_IRQ_H
#define _ASM_OUTBOARD_IRQ_H

/* One for each device of the hypercall interface (enum ob_interrupt). */
#define NR_IRQS 32

#include <asm-generic/irq.h>
#endif
