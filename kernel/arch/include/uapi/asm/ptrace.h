/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/* Requests of ptrace(2) that x86-64 has of its own. */
#ifndef _UAPI_ASM_OUTBOARD_PTRACE_H
#define _UAPI_ASM_OUTBOARD_PTRACE_H

#define PTRACE_GETREGS 12
#define PTRACE_SETREGS 13
#define PTRACE_GETFPREGS 14
#define PTRACE_SETFPREGS 15
#define PTRACE_OLDSETOPTIONS 21
#define PTRACE_ARCH_PRCTL 30
#define PTRACE_SYSEMU 31
#define PTRACE_SYSEMU_SINGLESTEP 32
#endif
