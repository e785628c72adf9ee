/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_PTRACE_H
#define _ASM_OUTBOARD_PTRACE_H

#include <uapi/asm/ptrace.h>

#ifndef __ASSEMBLY__
/*
 * The registers of a program. It begins as struct ob_space_registers does (core/space_run.c). Of
 * other interrupted code only ip, bp and `user` are set.
 */
struct pt_regs {
	unsigned long ax, bx, cx, dx, si, di, bp, sp;
	unsigned long r8, r9, r10, r11, r12, r13, r14, r15;
	unsigned long ip, flags;
	unsigned long fs_base, gs_base;
	long orig_ax;			/* number of the system call; -1: in none */
	unsigned long user;		/* user code was interrupted, or a client that is out */
};

#define user_mode(regs) ((regs)->user)
#define instruction_pointer(regs) ((regs)->ip)
#define instruction_pointer_set(regs, value) ((regs)->ip = (value))
#define profile_pc(regs) instruction_pointer(regs)
#define user_stack_pointer(regs) ((regs)->sp)
#define kernel_stack_pointer(regs) ((regs)->sp)
#define frame_pointer(regs) ((regs)->bp)
#define regs_return_value(regs) ((regs)->ax)
#define current_pt_regs() (&current->thread.regs)

/* Of programs only: core/ptrace.c refuses it for others. */
#define arch_has_single_step() (IS_ENABLED(CONFIG_MMU))
#define ARCH_HAS_USER_SINGLE_STEP_REPORT
#endif
#endif
