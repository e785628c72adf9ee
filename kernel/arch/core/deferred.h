/* SPDX-License-Identifier: GPL-2.0-only */
/* What is started later than at boot: deferred.c, and secondary.c, which SMP=n does without. */
#ifndef OUTBOARD_CORE_DEFERRED_H
#define OUTBOARD_CORE_DEFERRED_H

#include <linux/init.h>
#include <linux/types.h>

void __init ob_deferred_setup(void);

#ifdef CONFIG_SMP
void __init ob_vcpus_setup(void);

/* Has the other vCPUs brought up: in a moment, at once. Neither waits. */
void ob_vcpus_start_later(void);
void ob_vcpus_start_now(void);

/* Until they are up. Blocks. */
void ob_vcpus_wait(void);

/* Those that are not up by now will not be: the machine halts. Blocks. */
void ob_vcpus_cancel(void);
#else
static inline void ob_vcpus_setup(void) { }
static inline void ob_vcpus_start_later(void) { }
static inline void ob_vcpus_start_now(void) { }
static inline void ob_vcpus_wait(void) { }
static inline void ob_vcpus_cancel(void) { }
#endif

long ob_sys_sched_getaffinity(pid_t pid, unsigned int size, unsigned long __user *mask);
long ob_sys_sched_setaffinity(pid_t pid, unsigned int size, unsigned long __user *mask);

#endif
