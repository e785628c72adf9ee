/* SPDX-License-Identifier: GPL-2.0-only */
/* Clocks and the timers of vCPUs: time.c. */
#ifndef OUTBOARD_CORE_TIME_H
#define OUTBOARD_CORE_TIME_H

#include <linux/time.h>
#include <linux/types.h>

struct ob_vcpu;

u64 ob_clock(void);
void ob_timer_start(void);
void ob_timer_expire(struct ob_vcpu *vcpu, u64 now);

/* The wall clock is the host's again. */
void ob_renew_wall_clock(void);

/* After a timer interrupt: whether the wall clock follows the host's. */
void ob_wall_clock_watch(void);

/* Programs compute the wall clock until it is to be compared again. */
void ob_wall_clock_show(void);

/* Calls that ask for the time. */
long ob_sys_clock_gettime(clockid_t clock, struct __kernel_timespec __user *time);
long ob_sys_gettimeofday(struct __kernel_old_timeval __user *time, struct timezone __user *zone);
long ob_sys_time(__kernel_old_time_t __user *time);

#endif
