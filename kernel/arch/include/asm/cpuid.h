/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Features of the processor beyond those of every x86-64, for faster code than Linux's portable
 * one.
 */
#ifndef _ASM_OUTBOARD_CPUID_H
#define _ASM_OUTBOARD_CPUID_H

#include <linux/types.h>

/* Bits of register ECX in leaf 1 (Intel's manual, volume 2A, CPUID). */
#define OB_CPUID_SSE42 (1u << 20)
#define OB_CPUID_AES (1u << 25)

static inline bool ob_cpuid_has(u32 feature)
{
	u32 a = 1, b, c = 0, d;

	asm("cpuid" : "+a" (a), "=b" (b), "+c" (c), "=d" (d));
	return c & feature;
}

#endif
