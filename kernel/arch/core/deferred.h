/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Start-up work that is put off until after boot: initcalls of sysfs (deferred.c), and vCPUs other
 * than the first (secondary.c, which SMP=n leaves out).
 */
#ifndef OUTBOARD_CORE_DEFERRED_H
#define OUTBOARD_CORE_DEFERRED_H

#include <linux/init.h>
#include <linux/types.h>

void __init ob_deferred_setup(void);

#ifdef CONFIG_SMP
void __init ob_vcpus_setup(void);

/* Both have the other vCPUs brought up: soon, or at once. Neither waits. */
void ob_vcpus_start_later(void);
void ob_vcpus_start_now(void);

/* Waits until they are up. Blocks. */
void ob_vcpus_wait(void);

/* The machine halts: vCPUs that are not up yet stay down. Blocks. */
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
