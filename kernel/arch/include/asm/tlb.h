/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_TLB_H
#define _ASM_OUTBOARD_TLB_H

/* No processor walks the kernel's page tables. */
#ifdef CONFIG_MMU
#define tlb_needs_table_invalidate() (false)
#endif

#include <asm-generic/tlb.h>
#endif
