/* SPDX-License-Identifier: GPL-2.0-only */
/* Signals of programs: space_signal.c. */
#ifndef OUTBOARD_CORE_SPACE_SIGNAL_H
#define OUTBOARD_CORE_SPACE_SIGNAL_H

struct pt_regs;

void ob_program_signals(struct pt_regs *regs);
long ob_program_sigreturn(void);

#endif
