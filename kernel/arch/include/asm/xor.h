/* SPDX-License-Identifier: GPL-2.0-only */
/* One fixed way to xor blocks: measuring which one is the fastest takes milliseconds of a boot. */
#ifndef _ASM_OUTBOARD_XOR_H
#define _ASM_OUTBOARD_XOR_H

#include <asm-generic/xor.h>

#define XOR_SELECT_TEMPLATE(fastest) (&xor_block_8regs_p)
#endif
