/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_TIMEX_H
#define _ASM_OUTBOARD_TIMEX_H

typedef unsigned long cycles_t;

static inline cycles_t get_cycles(void)
{
	return __builtin_ia32_rdtsc();
}
#define get_cycles get_cycles

#include <asm-generic/timex.h>
#endif
