/* SPDX-License-Identifier: GPL-2.0-only */
/* A space shows user code an mm: it is a cache of the page tables (V12). */
#ifndef OUTBOARD_CORE_SPACE_H
#define OUTBOARD_CORE_SPACE_H

#include <linux/types.h>

struct ob_space {
	u64 number;			/* of the host's group spaces; 0: the client window */
};

/* The client window, for the mm of the local clients. */
extern struct ob_space ob_local_space;

#endif
