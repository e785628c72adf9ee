/* SPDX-License-Identifier: GPL-2.0-only */
/* Taking the interrupts of a vCPU: interrupt.c. */
#ifndef OUTBOARD_CORE_INTERRUPT_H
#define OUTBOARD_CORE_INTERRUPT_H

#include <linux/types.h>

void ob_interrupts_run(bool user);

#endif
