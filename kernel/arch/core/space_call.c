// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program's system call. A debugger and filters may look at it, change it or forbid it:
 *
 *   before the call    1. the debugger (PTRACE_SYSCALL, PTRACE_SYSEMU)
 *                      2. the filters (seccomp), which see what the debugger has changed
 *   after it           the debugger; a step over the instruction ends here
 *
 * A call that is not made leaves in ax the value that the debugger or the filter has set.
 */
#include <linux/ptrace.h>
#include <linux/rseq.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <asm/host.h>
#include <asm/syscall.h>
#include <asm/unistd.h>
#include "space_call.h"
#include "vdso.h"

static void ob_call_make(struct pt_regs *regs, unsigned int number)
{
	if (likely(number < __NR_syscalls))
		regs->ax = ob_program_call_table[number](regs->di, regs->si, regs->dx, regs->r10,
							  regs->r8, regs->r9);
	else
		regs->ax = -ENOSYS;
}

/* Returns whether the call may be made. */
static bool ob_call_begins(struct pt_regs *regs)
{
	unsigned long flags = read_thread_flags();

	if (flags & (_TIF_SYSCALL_TRACE | _TIF_SYSCALL_EMU) &&
	    (ptrace_report_syscall_entry(regs) || flags & _TIF_SYSCALL_EMU))
		return false;
	/* Another thread may have set a filter meanwhile. */
	return !test_thread_flag(TIF_SECCOMP) || !__secure_computing(NULL);
}

static void ob_call_ends(struct pt_regs *regs)
{
	unsigned long flags = read_thread_flags();
	/* PTRACE_SYSEMU_SINGLESTEP has reported the instruction before the call. */
	bool step = flags & _TIF_SINGLESTEP && !(flags & _TIF_SYSCALL_EMU);

	if (step || flags & _TIF_SYSCALL_TRACE)
		ptrace_report_syscall_exit(regs, step);
}

static void ob_call_watched(struct pt_regs *regs)
{
	/* Debuggers know the beginning of a call by this value. */
	regs->ax = -ENOSYS;
	if (ob_call_begins(regs)) {
		int number = syscall_get_nr(current, regs);

		if (number != -1)
			ob_call_make(regs, number);
	}
}

void ob_program_make_call(struct pt_regs *regs)
{
	/* Processors take 32 bits of the number. */
	unsigned int number = regs->ax;

	/* No call of the program itself. */
	if (unlikely(regs->ip >= ob_layout.space_end) && ob_vdso_host_clock(regs))
		return;
	regs->orig_ax = regs->ax;
	if (likely(!(read_thread_flags() & OB_TIF_CALL_WORK)))
		ob_call_make(regs, number);
	else
		ob_call_watched(regs);
	rseq_syscall(regs);
	/* A debugger may have come meanwhile. */
	if (unlikely(read_thread_flags() & OB_TIF_CALL_WORK))
		ob_call_ends(regs);
}
