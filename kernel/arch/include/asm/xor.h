/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sums of blocks by Linux's x86 code: kernel/arch/Makefile adds the directory of its header. The
 * choice is fixed for each processor, since a measurement takes milliseconds of a boot.
 */
#ifndef _ASM_OUTBOARD_XOR_H
#define _ASM_OUTBOARD_XOR_H

#include_next <asm/xor.h>

#undef XOR_SELECT_TEMPLATE
#define XOR_SELECT_TEMPLATE(fastest) AVX_SELECT(&xor_block_sse_pf64)

#endif
