/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_PROCESSOR_H
#define _ASM_OUTBOARD_PROCESSOR_H

#include <asm/page.h>
#include <asm/ptrace.h>
#include <asm/vcpu.h>

struct ob_adoption;

/* An exception of a program's code. */
struct ob_trap {
	unsigned long vector, error_code, address;
};

/*
 * A task is a coroutine (kernel threads, idle tasks, init), or bound to one host thread, or a
 * coroutine with a user side: a program (V1). core/thread.c
 */
struct thread_struct {
	struct ob_vcpu *vcpu;		/* on which it was switched to last */
	bool apart;			/* reaches user memory by page tables: asm/uaccess.h */
	bool program;			/* it runs a program, or is about to: core/space_run.c */
	bool vectors_newer;		/* the host has newer ones: core/space_vector.c */
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
	unsigned long shown, shown_end;	/* user pages that its fault has shown: core/mmu.c */
	unsigned long frame;		/* the kernel's frame pointer when it was switched from */
	void *vectors;			/* a program's vector registers: core/space_vector.c */
	struct ob_vcpu *vectors_on;	/* the vCPU that has them, too; NULL: none */
	struct ob_trap trap;		/* a program's last one */
	bool shows_later;		/* its fault is under way: core/space_map.c */
	unsigned long show, show_end;	/* what its space shows after the fault */
	struct page *block;		/* free pages for its fault: core/space_fault.c */
	unsigned int block_pages;
	unsigned int new_pages;		/* that its last fault has made */
	struct pt_regs regs;		/* of a program */
};

#define INIT_THREAD { }

/*
 * A client's memory is all of the host's, and the kernel maps memory for clients in the window. A
 * program has the addresses of its space.
 */
#define TASK_SIZE_MAX ((1UL << 47) - PAGE_SIZE)
#ifdef CONFIG_MMU
#define TASK_SIZE (current->thread.apart ? ob_layout.space_end : TASK_SIZE_MAX)
#define TASK_UNMAPPED_BASE \
	(current->thread.apart ? PAGE_ALIGN(ob_layout.space_end / 3) : ob_layout.client)
/* On a host that cannot map, init's stack is only in the page tables. */
#define STACK_TOP_MAX \
	(current->thread.program ? ob_layout.space_end : ob_layout.client_end ?: TASK_SIZE_MAX)
#define STACK_TOP STACK_TOP_MAX
#define arch_get_mmap_end(address, length, flags) ob_mmap_end()
#define arch_get_mmap_base(address, base) (base)
#define HAVE_ARCH_PICK_MMAP_LAYOUT
#ifndef __ASSEMBLY__
unsigned long ob_mmap_end(void);	/* core/space_layout.c */
#endif
#else
#define TASK_SIZE TASK_SIZE_MAX
#define TASK_UNMAPPED_BASE 0
#define STACK_TOP TASK_SIZE
#define STACK_TOP_MAX STACK_TOP
#endif

void ob_cpu_relax(void);
#define cpu_relax() ob_cpu_relax()

#define KSTK_EIP(task) ((task)->thread.regs.ip)
#define KSTK_ESP(task) ((task)->thread.regs.sp)
#define task_pt_regs(task) (&(task)->thread.regs)

unsigned long __get_wchan(struct task_struct *task);

#ifdef CONFIG_MMU
/* core/space_task.c */
void flush_thread(void);
void start_thread(struct pt_regs *regs, unsigned long ip, unsigned long sp);
#else
static inline void flush_thread(void)
{
}
#endif

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
