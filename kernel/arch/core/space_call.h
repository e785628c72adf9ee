/* SPDX-License-Identifier: GPL-2.0-only */
/* System calls of programs: space_call.c. */
#ifndef OUTBOARD_CORE_SPACE_CALL_H
#define OUTBOARD_CORE_SPACE_CALL_H

struct pt_regs;

void ob_program_make_call(struct pt_regs *regs);

#endif
