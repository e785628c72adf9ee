/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_PROCESSOR_H
#define _ASM_OUTBOARD_PROCESSOR_H

#include <asm/page.h>
#include <asm/ptrace.h>
#include <asm/vcpu.h>

struct ob_adoption;

/*
 * A task is either a coroutine (kernel threads, idle tasks, init) or bound to one host thread (V1):
 * core/thread.c.
 */
struct thread_struct {
	struct ob_vcpu *vcpu;		/* on which it was switched to last */
	void *coroutine;		/* saved stack pointer, NULL for a host-bound task */
	void *stack;			/* of the coroutine */
	int (*function)(void *);	/* of a new coroutine */
	void *argument;			/* of it; of a client that ends: its thread's own context */
	struct ob_adoption *adoption;	/* the host thread that waits to become this task */
	struct task_struct *gone_next;	/* in the list of tasks that threads have left: adopt.c */
	u32 claim;			/* enum ob_claim: core/adopt.h */
	u32 ending;			/* enum ob_ending: core/signal.h */
	int exit_code;			/* of a task that is `ending` */
	bool signals_wait;		/* for its thread: core/default_signal.c */
	bool client;			/* it is bound to a host thread, or will be */
	u32 baton;			/* on which the host thread waits: core/baton.h */
	u32 away;			/* enum ob_away: core/evict.c (V8) */
	u32 interrupted;		/* its next blocking call fails with EINTR: core/eintr.c */
	u32 on_wake_list;		/* of evicted tasks that want to run again */
	struct task_struct *wake_next;	/* in that list */
	struct blk_plug *plug;		/* of an evicted task, which sleeps without: core/evict.c */
	u64 host_thread;		/* ob_host_thread_self() of a host-bound task's thread */
	unsigned long shown, shown_end;	/* client pages that its fault has shown: mmu.c */
	struct pt_regs regs;
};

#define INIT_THREAD { }

/* Client memory is all of the host's. The kernel maps memory for clients in the window. */
#define TASK_SIZE ((1UL << 47) - PAGE_SIZE)
#ifdef CONFIG_MMU
#define TASK_UNMAPPED_BASE (ob_layout.client)
/* On a host that cannot map, init's stack is only in the page tables. */
#define STACK_TOP (ob_layout.client_end ?: TASK_SIZE)
/* The host shows the window of one process only: others get no mapping (ENOMEM). */
#define arch_get_mmap_end(address, length, flags) \
	(current->mm->context.space ? ob_layout.client_end - (16UL << 20) : mmap_min_addr)
#define arch_get_mmap_base(address, base) (base)
#else
#define TASK_UNMAPPED_BASE 0
#define STACK_TOP TASK_SIZE
#endif
#define STACK_TOP_MAX STACK_TOP

void ob_cpu_relax(void);
#define cpu_relax() ob_cpu_relax()

#define KSTK_EIP(task) (0UL)
#define KSTK_ESP(task) (0UL)
#define task_pt_regs(task) (&(task)->thread.regs)

unsigned long __get_wchan(struct task_struct *task);

static inline void flush_thread(void)
{
}

#define start_thread(regs, ip, sp) do { } while (0)

static inline void prefetch(const void *address)
{
	__builtin_prefetch(address, 0, 3);
}

static inline void prefetchw(const void *address)
{
	__builtin_prefetch(address, 1, 3);
}
#define ARCH_HAS_PREFETCH
#define ARCH_HAS_PREFETCHW
#endif
