/* SPDX-License-Identifier: GPL-2.0-only */
/* Filters of system calls, for programs: core/space_call.c */
#ifndef _ASM_OUTBOARD_SECCOMP_H
#define _ASM_OUTBOARD_SECCOMP_H

#include <asm-generic/seccomp.h>
#include <uapi/linux/audit.h>

#define SECCOMP_ARCH_NATIVE AUDIT_ARCH_X86_64
#define SECCOMP_ARCH_NATIVE_NR NR_syscalls
#define SECCOMP_ARCH_NATIVE_NAME "x86_64"
#endif
