/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The registers in a program's signal frame, as x86-64 lays them out. Handlers of clients are
 * called as functions, and have no frame.
 */
#ifndef _UAPI_ASM_OUTBOARD_SIGCONTEXT_H
#define _UAPI_ASM_OUTBOARD_SIGCONTEXT_H

#include <linux/types.h>

struct sigcontext {
	__u64 r8, r9, r10, r11, r12, r13, r14, r15;
	__u64 di, si, bp, bx, dx, ax, cx, sp, ip, flags;
	__u16 cs, gs, fs, ss;
	__u64 err, trapno, oldmask, cr2;
	__u64 fpstate;			/* address of the vector registers; 0: none */
	__u64 reserved[8];
};
#endif
