/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a host thread knows of itself: its block, the heart of the architecture. core/vcpu.h
 * explains the protocol of vCPUs.
 *
 * The block lives in the host's thread-local storage. Another host thread may resume a coroutine,
 * so no address of a block may outlive a switch (V1). Code accesses the block only relative to the
 * segment register, by an offset that is the same in all threads.
 *
 * The block of a thread may still be that of a kernel that has halted since, in the same place.
 * Then it is void: `boot` differs. Each function that a thread calls first looks at that.
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
	OB_THREAD_SERVICE,	/* timer of one vCPU, takes its interrupts */
	OB_THREAD_ENDED,	/* had a task of a process of its own, which has ended: adopt.c */
};

/* A thread that runs as another task for a while: core/idle.c, core/switch.c, core/parked.c. */
struct ob_loan {
	struct task_struct *task;	/* its own, if it has one already */
};

/* What a host thread has learnt about spinning for a baton and for a lock: core/spin.c */
struct ob_spinning {
	u8 waits_to_skip;		/* so many waits come without spinning */
	u8 reluctance;			/* the same, after the last vain attempt */
	u8 pauses;			/* so many came before the last look at a lock */
	u8 spins;
};

/* The note OB_NOTE_THREAD_BLOCK (outboard/tables.h) has its size. */
struct ob_thread {
	u32 boot;			/* ob_boot of the owner of the rest; first: tables.h */
	u32 entering;			/* ob_boot while the thread is on the slow path: gate.c */
	unsigned long parked;		/* ob_parked() of its task, parked or not; 0: no task */
	struct task_struct *task;	/* `current`; NULL if the thread has none */
	struct ob_vcpu *vcpu;
	unsigned long percpu_offset;
	struct ob_loan *loan;		/* set: the program's calls and V6 are refused */
	u64 self;			/* ob_host_thread_self(), if it carries or has a task */
	struct ob_spinning spinning;
	u16 cpu;
	u8 irqs_off;
	u8 kind;
};

#ifdef CONFIG_CC_IS_CLANG
#define __ob_tls __attribute__((address_space(257)))
#else
#define __ob_tls __seg_fs
#endif

/* The distance of the blocks from the thread pointer: core/host.c */
extern unsigned long ob_thread_block_offset;

#ifdef MODULE
static __always_inline unsigned long ob_thread_offset(void)
{
	return ob_thread_block_offset;
}
#else
/* The compiler may keep the value: it changes only while no thread is in the kernel. */
static __always_inline __attribute_const__ unsigned long ob_thread_offset(void)
{
	unsigned long offset;

	asm("movq ob_thread_block_offset(%%rip), %0" : "=r"(offset));
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
