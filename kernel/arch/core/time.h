/* SPDX-License-Identifier: GPL-2.0-only */
/* time.c: when the wall clock follows the host's. */
#ifndef OUTBOARD_CORE_TIME_H
#define OUTBOARD_CORE_TIME_H

#include <linux/time.h>
#include <linux/types.h>

/* After a timer interrupt. */
void ob_wall_clock_watch(void);

/* Calls that ask for the time. */
long ob_sys_clock_gettime(clockid_t clock, struct __kernel_timespec __user *time);
long ob_sys_gettimeofday(struct __kernel_old_timeval __user *time, struct timezone __user *zone);
long ob_sys_time(__kernel_old_time_t __user *time);

#endif
