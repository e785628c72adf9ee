/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One way to xor blocks, so that boot does not spend milliseconds on finding out which is the
 * fastest.
 */
#ifndef _ASM_OUTBOARD_XOR_H
#define _ASM_OUTBOARD_XOR_H

#include <asm-generic/xor.h>

#define XOR_SELECT_TEMPLATE(fastest) (&xor_block_8regs_p)
#endif
