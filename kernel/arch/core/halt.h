/* SPDX-License-Identifier: GPL-2.0-only */
/* Halt: halt.c. */
#ifndef OUTBOARD_CORE_HALT_H
#define OUTBOARD_CORE_HALT_H

void ob_abandon(void);

#endif
