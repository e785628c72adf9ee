/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
#ifndef _UAPI_ASM_OUTBOARD_UCONTEXT_H
#define _UAPI_ASM_OUTBOARD_UCONTEXT_H

#define UC_FP_XSTATE 1			/* the vector registers are in XSAVE's format */
#define UC_SIGCONTEXT_SS 2		/* ss is saved */
#define UC_STRICT_RESTORE_SS 4		/* and restored */

struct ucontext {
	unsigned long uc_flags;
	struct ucontext *uc_link;
	stack_t uc_stack;
	struct sigcontext uc_mcontext;
	sigset_t uc_sigmask;
};
#endif
