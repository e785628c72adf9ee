/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_THREAD_INFO_H
#define _ASM_OUTBOARD_THREAD_INFO_H

#include <asm/page.h>

/*
 * Tasks run on the host's thread stacks and on coroutine stacks. What the
 * kernel allocates as a stack is used by nobody, so it is as small as it may be.
 */
#define THREAD_SIZE 1024
#define THREAD_SIZE_ORDER 0

#ifndef __ASSEMBLY__
#include <asm/types.h>

struct thread_info {
	unsigned long flags;
	int preempt_count;
	unsigned int cpu;
};

#define INIT_THREAD_INFO(task) { .preempt_count = INIT_PREEMPT_COUNT }
#endif

#define TIF_SYSCALL_TRACE 0
#define TIF_NOTIFY_RESUME 1
#define TIF_SIGPENDING 2
#define TIF_NEED_RESCHED 3
#define TIF_NOTIFY_SIGNAL 4
#define TIF_RESTORE_SIGMASK 5
#define TIF_MEMDIE 6
#define TIF_SECCOMP 7
#define TIF_UPROBE 8
#define TIF_SYSCALL_EMU 9
#define TIF_SINGLESTEP 10		/* a debugger runs the program step by step */
#define TIF_FORCED_TF 11		/* and has set the flag TF for that: core/space_ptrace.c */

#define _TIF_SYSCALL_TRACE (1UL << TIF_SYSCALL_TRACE)
#define _TIF_NOTIFY_RESUME (1UL << TIF_NOTIFY_RESUME)
#define _TIF_SIGPENDING (1UL << TIF_SIGPENDING)
#define _TIF_NEED_RESCHED (1UL << TIF_NEED_RESCHED)
#define _TIF_NOTIFY_SIGNAL (1UL << TIF_NOTIFY_SIGNAL)
#define _TIF_RESTORE_SIGMASK (1UL << TIF_RESTORE_SIGMASK)
#define _TIF_SECCOMP (1UL << TIF_SECCOMP)
#define _TIF_SYSCALL_EMU (1UL << TIF_SYSCALL_EMU)
#define _TIF_SINGLESTEP (1UL << TIF_SINGLESTEP)

/* Work that a task does before it leaves the kernel (V9). */
#define OB_TIF_EXIT_WORK (_TIF_NOTIFY_RESUME | _TIF_SIGPENDING | _TIF_NEED_RESCHED | \
			  _TIF_NOTIFY_SIGNAL | _TIF_RESTORE_SIGMASK)

/* Work around a system call of a program: core/space_call.c */
#define OB_TIF_CALL_WORK (_TIF_SYSCALL_TRACE | _TIF_SYSCALL_EMU | _TIF_SECCOMP | _TIF_SINGLESTEP)
#endif
