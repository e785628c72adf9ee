/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_STACKTRACE_H
#define _ASM_OUTBOARD_STACKTRACE_H

#include <linux/types.h>

/*
 * Calls `report` for each return address found by following frame pointers
 * from `frame`, until it returns false or the chain leaves the stack.
 */
void ob_walk_frames(unsigned long frame, bool (*report)(void *context, unsigned long address),
		    void *context);
#endif
