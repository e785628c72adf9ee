/* SPDX-License-Identifier: GPL-2.0-only */
/* Spinning before a sleep: spin.c. */
#ifndef OUTBOARD_CORE_SPIN_H
#define OUTBOARD_CORE_SPIN_H

#include <linux/types.h>

void ob_spin_for_bits(const u32 *word, u32 bits);

#endif
