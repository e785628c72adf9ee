/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_PTRACE_H
#define _ASM_OUTBOARD_PTRACE_H

#include <uapi/asm/ptrace.h>

#ifndef __ASSEMBLY__
struct pt_regs {
	unsigned long ip;
	unsigned long sp;
	unsigned long bp;
	unsigned long number;		/* of the system call */
	unsigned long arguments[6];
	long result;
	unsigned long user;		/* interrupted while the client was out in host code */
};

#define user_mode(regs) ((regs)->user)
#define instruction_pointer(regs) ((regs)->ip)
#define instruction_pointer_set(regs, value) ((regs)->ip = (value))
#define profile_pc(regs) instruction_pointer(regs)
#define user_stack_pointer(regs) ((regs)->sp)
#define kernel_stack_pointer(regs) ((regs)->sp)
#define frame_pointer(regs) ((regs)->bp)
#define regs_return_value(regs) ((regs)->result)
#define arch_has_single_step() (0)
#define current_pt_regs() (&current->thread.regs)
#endif
#endif
