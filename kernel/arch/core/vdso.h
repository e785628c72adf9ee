/* SPDX-License-Identifier: GPL-2.0-only */
/* The pages [vvar] and [vdso] of programs: vdso.c. */
#ifndef OUTBOARD_CORE_VDSO_H
#define OUTBOARD_CORE_VDSO_H

#include <linux/types.h>

struct pt_regs;

#ifdef CONFIG_MMU
void ob_vdso_setup(void);
void ob_vdso_set_compared(u64 next, bool wall_is_own);
bool ob_vdso_host_clock(struct pt_regs *regs);
#else
static inline void ob_vdso_set_compared(u64 next, bool wall_is_own)
{
}
#endif

#endif
