/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_MMU_H
#define _ASM_OUTBOARD_MMU_H

typedef struct {
	bool mirrored;			/* the host's client window shows this mm */
#ifndef CONFIG_MMU
	unsigned long end_brk;
#endif
} mm_context_t;
#endif
