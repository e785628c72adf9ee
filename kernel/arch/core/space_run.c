// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program's task is a coroutine (V1). Its user side is the hypercall ob_host_space_enter(), in
 * which the vCPU stays HELD, and has the mark `in_space` (V7, V18):
 *
 *   ob_program_run()                      who raises an interrupt there
 *   sets the mark                         sets the bit
 *   barrier                               barrier
 *   looks at bits and exit work:          looks at the mark: if it is set,
 *   if there are any, does not enter      has the host end the entry
 *
 * So user code stands still when Linux has switched from its task, stopped or killed it. Only
 * carriers come here: a lent thread runs no program (ob_may_carry()).
 *
 * Between two entries all registers are in memory: thread.regs, and space_vector.c.
 */
#include <linux/resume_user_mode.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <asm/host.h>
#include <outboard/hypercall_spaces.h>
#include "delay.h"
#include "interrupt.h"
#include "panic.h"
#include "space.h"
#include "space_call.h"
#include "space_fault.h"
#include "space_run.h"
#include "space_signal.h"
#include "space_site.h"
#include "space_vector.h"
#include "vcpu.h"

/* Exceptions of the processor, as signals. Vectors: Intel's manual, volume 3, chapter 6. */
static void ob_program_trap(struct pt_regs *regs, const struct ob_trap *trap)
{
	void __user *ip = (void __user *)regs->ip;

	switch (trap->vector) {
	case 0:
		force_sig_fault(SIGFPE, FPE_INTDIV, ip);
		break;
	case 1:
		/* A step, or the instruction int1. */
		force_sig_fault(SIGTRAP, regs->flags & OB_FLAG_STEP ? TRAP_TRACE : TRAP_BRKPT, ip);
		break;
	case 3:
		force_sig(SIGTRAP);
		break;
	case 6:
		force_sig_fault(SIGILL, ILL_ILLOPN, ip);
		break;
	case 11:
	case 12:
		force_sig(SIGBUS);
		break;
	case 14:
		ob_program_fault(trap);
		break;
	case 16:
	case 19:
		force_sig_fault(SIGFPE, ob_vectors_fault_code(trap->vector == 16), ip);
		break;
	case 17:
		force_sig_fault(SIGBUS, BUS_ADRALN, NULL);
		break;
	default:
		force_sig(SIGSEGV);
		break;
	}
}

/* Linux's work before a task returns to user code (V9). */
static void ob_program_exit_work(struct pt_regs *regs)
{
	unsigned long flags;

	while ((flags = read_thread_flags() & OB_TIF_EXIT_WORK)) {
		if (flags & _TIF_NEED_RESCHED)
			schedule();
		if (flags & (_TIF_SIGPENDING | _TIF_NOTIFY_SIGNAL))
			ob_program_signals(regs);
		else if (flags & _TIF_RESTORE_SIGMASK)
			restore_saved_sigmask();
		if (flags & _TIF_NOTIFY_RESUME)
			resume_user_mode_work(regs);
	}
}

/* With the mark set and interrupts off. An event that is no reason if there is work first. */
static void ob_program_enter(struct ob_vcpu *vcpu, struct pt_regs *regs,
			     struct ob_space_event *event)
{
	struct ob_space_registers *registers = (void *)regs;

	BUILD_BUG_ON(offsetof(struct ob_space_registers, r8) != offsetof(struct pt_regs, r8));
	BUILD_BUG_ON(offsetof(struct ob_space_registers, ip) != offsetof(struct pt_regs, ip));
	BUILD_BUG_ON(sizeof(*registers) != offsetof(struct pt_regs, orig_ax));
	*event = (struct ob_space_event) { .kind = OB_SPACE_INTERRUPTED };
	if (READ_ONCE(vcpu->pending) || read_thread_flags() & OB_TIF_EXIT_WORK)
		return;
	if (!ob_vectors_load(vcpu)) {
		force_sig(SIGSEGV);
		return;
	}
	ob_delay_point();
	ob_host_space_enter(ob_host, current->mm->context.own.number, vcpu->id, registers, event);
	regs->orig_ax = -1;
}

/* Runs user code until an event. */
static void ob_program_step(struct pt_regs *regs, struct ob_space_event *event)
{
	struct ob_vcpu *vcpu;

	ob_this_thread->irqs_off = 1;
	barrier();
	vcpu = ob_this_vcpu();
	WRITE_ONCE(vcpu->in_space, 1);
	ob_delay_point();
	virt_mb();
	ob_program_enter(vcpu, regs, event);
	WRITE_ONCE(vcpu->in_space, 0);
	barrier();
	ob_this_thread->irqs_off = 0;
	barrier();
	ob_panic_check();
	/* In the place of user code: so Linux counts the time. */
	if (ob_pending())
		ob_interrupts_run(true);
}

static void ob_program_event(struct pt_regs *regs, const struct ob_space_event *event)
{
	struct ob_trap *trap = &current->thread.trap;

	switch (event->kind) {
	case OB_SPACE_SYSCALL:
		ob_site_trapped(regs);
		fallthrough;
	case OB_SPACE_CALL:
		ob_program_make_call(regs);
		break;
	case OB_SPACE_TRAP:
		*trap = (struct ob_trap) { event->vector, event->error_code, event->address };
		ob_program_trap(regs, trap);
		break;
	case OB_SPACE_GONE:
		pr_warn_ratelimited("%s (process %d) is killed: the host has ended the process "
				    "it ran in, for want of memory or by a signal: see the "
				    "host's log\n",
				    current->comm, task_pid_nr(current));
		do_group_exit(SIGKILL);
	}
}

/* The host makes no space. */
static void __noreturn ob_program_kill_unrun(int error)
{
	const bool memory = error == -ENOMEM;

	if (error == -ESRCH) {
		pr_warn_ratelimited("%s (process %d) is killed: the host has ended the process "
				    "that starts programs, and none starts any more: see the "
				    "host's log, and boot the kernel again\n",
				    current->comm, task_pid_nr(current));
		do_group_exit(SIGKILL);
	}
	pr_warn_ratelimited("%s (process %d) is killed: the host has no %s for it (error %d): "
			    "raise its limits (%s), or run fewer programs\n",
			    current->comm, task_pid_nr(current),
			    memory ? "memory or descriptors" : "process", -error,
			    memory ? "ulimit -v, -n" : "ulimit -u, pids.max");
	do_group_exit(SIGKILL);
}

/* The calling task, which start_thread() or a copy has given registers, runs user code. */
void __noreturn ob_program_run(void)
{
	struct pt_regs *regs = current_pt_regs();
	struct ob_space_event event;

	for (;;) {
		int error;

		ob_program_exit_work(regs);
		error = ob_space_make(current->mm);
		if (unlikely(error))
			ob_program_kill_unrun(error);
		ob_program_step(regs, &event);
		if (event.kind == OB_SPACE_TRAP || event.kind == OB_SPACE_INTERRUPTED)
			ob_sites_leave(regs, &event);
		ob_program_event(regs, &event);
	}
}
