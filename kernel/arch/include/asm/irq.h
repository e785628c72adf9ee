/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_IRQ_H
#define _ASM_OUTBOARD_IRQ_H

/* At boot. Linux allocates descriptors when drivers need them: core/irq.c. */
#define NR_IRQS 32

#include <asm-generic/irq.h>
#endif
