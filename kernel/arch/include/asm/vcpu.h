/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual CPUs and what a host thread knows of itself: the heart of the
 * architecture. core/vcpu.h explains the protocol.
 *
 * The thread's block lives in the host's thread-local storage. A coroutine can
 * be resumed by another host thread than the one that it left, so no address of the block may
 * outlive a switch: it is only ever accessed relative to the segment register,
 * by an offset that is the same in all threads.
 */
#ifndef _ASM_OUTBOARD_VCPU_H
#define _ASM_OUTBOARD_VCPU_H

#ifndef __ASSEMBLY__
#include <linux/types.h>

struct task_struct;
struct ob_vcpu;

enum ob_thread_kind {
	OB_THREAD_CLIENT,	/* a thread of the program: runs its own task */
	OB_THREAD_CARRIER,	/* runs the coroutines of one vCPU */
	OB_THREAD_SERVICE,	/* timer and deliverer of one vCPU */
};

struct ob_thread {
	struct task_struct *task;	/* current; NULL outside of the kernel's world */
	struct ob_vcpu *vcpu;
	unsigned long percpu_offset;
	u32 cpu;
	u32 irqs_off;
	u32 kind;
	u32 spins;
};

#ifdef CONFIG_CC_IS_CLANG
#define __ob_tls __attribute__((address_space(257)))
#else
#define __ob_tls __seg_fs
#endif

#ifdef MODULE
/* A module has no relocations for thread-local storage: it looks the offset up. */
extern unsigned long ob_thread_block_offset;

static __always_inline unsigned long ob_thread_offset(void)
{
	return ob_thread_block_offset;
}
#else
static __always_inline __attribute_const__ unsigned long ob_thread_offset(void)
{
	unsigned long offset;

	asm("movq ob_thread_block@gottpoff(%%rip), %0" : "=r"(offset));
	return offset;
}
#endif

#define ob_this_thread ((struct ob_thread __ob_tls *)ob_thread_offset())

static __always_inline struct ob_vcpu *ob_this_vcpu(void)
{
	return ob_this_thread->vcpu;
}
#endif
#endif
