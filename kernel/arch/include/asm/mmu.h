/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_MMU_H
#define _ASM_OUTBOARD_MMU_H

struct ob_space;

typedef struct {
	struct ob_space *space;		/* what user code sees of this mm; NULL: nothing */
#ifndef CONFIG_MMU
	unsigned long end_brk;
#endif
} mm_context_t;
#endif
