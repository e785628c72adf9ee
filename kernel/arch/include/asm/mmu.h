/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_MMU_H
#define _ASM_OUTBOARD_MMU_H

#include <asm/spin.h>

/* A space shows user code an mm: it is a cache of the page tables (V12). core/space.h */
struct ob_space {
	u64 number;			/* of the host's group spaces; 0: none */
	struct ob_lock lock;		/* of what is shown */
	bool is_protected;		/* the next flush of all has been done: ob_space_forked() */
};

typedef struct {
	struct ob_space *space;		/* what user code sees of this mm; NULL: nothing yet */
	struct ob_space own;		/* the space of a program */
	bool program;			/* its memory is reached by the page tables alone (V16) */
#ifndef CONFIG_MMU
	unsigned long end_brk;
#endif
} mm_context_t;
#endif
