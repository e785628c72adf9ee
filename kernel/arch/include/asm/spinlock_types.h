/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_SPINLOCK_TYPES_H
#define _ASM_OUTBOARD_SPINLOCK_TYPES_H

#include <linux/types.h>

typedef struct {
	u32 locked;
} arch_spinlock_t;

#define __ARCH_SPIN_LOCK_UNLOCKED { 0 }

#include <asm/qrwlock_types.h>
#endif
