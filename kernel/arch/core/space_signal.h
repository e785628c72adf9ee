/* SPDX-License-Identifier: GPL-2.0-only */
/* Signals of programs: space_signal.c. */
#ifndef OUTBOARD_CORE_SPACE_SIGNAL_H
#define OUTBOARD_CORE_SPACE_SIGNAL_H

struct pt_regs;

/* The flag TF: the processor traps after one instruction. */
#define OB_FLAG_STEP 0x100UL

/* Flags that a program may set: CF PF AF ZF SF TF DF OF RF AC. */
#define OB_FLAGS_OWN 0x50dd5

/* Selectors of the segments that programs see on x86-64 Linux. */
#define OB_CODE_SEGMENT 0x33
#define OB_DATA_SEGMENT 0x2b

void ob_program_signals(struct pt_regs *regs);
long ob_program_sigreturn(void);

#endif
