/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_UNISTD_H
#define _ASM_OUTBOARD_UNISTD_H

#include <uapi/asm/unistd.h>

/* The old calls that the x86-64 table still has. */
#define __ARCH_WANT_NEW_STAT
#define __ARCH_WANT_SYS_ALARM
#define __ARCH_WANT_SYS_CLONE
#define __ARCH_WANT_SYS_CLONE3
#define __ARCH_WANT_SYS_FADVISE64
#define __ARCH_WANT_SYS_FORK
#define __ARCH_WANT_SYS_GETHOSTNAME
#define __ARCH_WANT_SYS_GETPGRP
#define __ARCH_WANT_SYS_NICE
#define __ARCH_WANT_SYS_PAUSE
#define __ARCH_WANT_SYS_SIGNAL
#define __ARCH_WANT_SYS_SIGPENDING
#define __ARCH_WANT_SYS_TIME
#define __ARCH_WANT_SYS_UTIME
#define __ARCH_WANT_SYS_VFORK

#define NR_syscalls (__NR_syscalls)
#endif
