/* SPDX-License-Identifier: GPL-2.0-only */
/* The futex system call of clients: futex.c. */
#ifndef OUTBOARD_CORE_FUTEX_H
#define OUTBOARD_CORE_FUTEX_H

#include <linux/types.h>

struct __kernel_timespec;

long ob_sys_futex(u32 __user *word, int op, u32 value,
		  const struct __kernel_timespec __user *timeout, u32 __user *word2, u32 value3);

#endif
