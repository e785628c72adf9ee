// SPDX-License-Identifier: GPL-2.0-only
/*
 * Debuggers of programs: the requests of ptrace(2) that are x86-64's own, and the run step by step.
 *
 * Steps are the processor's: it traps after an instruction with the flag TF (`TIF_FORCED_TF`: the
 * program has not set it itself). A system call ends its own step (space_call.c), and so does the
 * beginning of a signal handler (space_signal.c).
 *
 * The processor's registers for breakpoints are the host's. They read as unused, and refuse
 * breakpoints as if all were taken.
 */
#include <linux/ptrace.h>
#include <linux/regset.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include "space_ptrace.h"
#include "space_regset.h"
#include "space_signal.h"
#include "space_site.h"
#include "space_task.h"

/* Places in `struct user` of x86-64 Linux. */
#define OB_USER_BREAKPOINTS 848
#define OB_USER_BREAKPOINTS_END 912
#define OB_USER_BREAKPOINT_HIT (OB_USER_BREAKPOINTS + 6 * sizeof(long))
#define OB_USER_SIZE 928

/* The processor's register DR6 when no breakpoint was hit: Intel's manual, volume 3, chapter 18. */
#define OB_BREAKPOINT_NOT_HIT 0xffff0ff0UL

/* By a debugger, of a stopped program. */
void user_enable_single_step(struct task_struct *child)
{
	struct pt_regs *regs = task_pt_regs(child);

	set_tsk_thread_flag(child, TIF_SINGLESTEP);
	if (regs->flags & OB_FLAG_STEP)
		return;
	regs->flags |= OB_FLAG_STEP;
	set_tsk_thread_flag(child, TIF_FORCED_TF);
}

/* The calling program has made a system call with one step. */
void user_single_step_report(struct pt_regs *regs)
{
	current->thread.trap = (struct ob_trap) { .vector = 1 };
	force_sig_fault(SIGTRAP, TRAP_BRKPT, (void __user *)regs->ip);
}

static long ob_user_read(struct task_struct *child, unsigned long address,
			 unsigned long __user *store)
{
	unsigned long value = 0;

	if (address % sizeof(value) || address >= OB_USER_SIZE)
		return -EIO;
	if (address / sizeof(value) < OB_USER_REGISTERS)
		value = ob_user_register(child, address / sizeof(value));
	else if (address == OB_USER_BREAKPOINT_HIT)
		value = OB_BREAKPOINT_NOT_HIT;
	return put_user(value, store);
}

static long ob_user_write(struct task_struct *child, unsigned long address, unsigned long value)
{
	if (address % sizeof(value))
		return -EIO;
	if (address / sizeof(value) < OB_USER_REGISTERS)
		return ob_user_register_set(child, address / sizeof(value), value);
	if (address < OB_USER_BREAKPOINTS || address >= OB_USER_BREAKPOINTS_END)
		return -EIO;
	if (address == OB_USER_BREAKPOINT_HIT)
		return 0;
	return value ? -ENOSPC : 0;
}

static long ob_regset_read(struct task_struct *child, unsigned int number, void __user *to)
{
	const struct user_regset_view *view = ob_program_view();
	const struct user_regset *regset = &view->regsets[number];

	return copy_regset_to_user(child, view, number, 0, regset->n * regset->size, to);
}

static long ob_regset_write(struct task_struct *child, unsigned int number,
			    const void __user *from)
{
	const struct user_regset_view *view = ob_program_view();
	const struct user_regset *regset = &view->regsets[number];

	return copy_regset_from_user(child, view, number, 0, regset->n * regset->size, from);
}

/* A debugger sees the program's own code. It makes a request before the program goes on. */
static void ob_code_restore(struct task_struct *child)
{
	struct mm_struct *mm = get_task_mm(child);

	if (!mm)
		return;
	ob_sites_restore(mm);
	mmput(mm);
}

long ob_program_ptrace(struct task_struct *child, long request, unsigned long address,
		       unsigned long data)
{
	void __user *area = (void __user *)data;

	ob_code_restore(child);
	switch (request) {
	case PTRACE_PEEKUSR:
		return ob_user_read(child, address, area);
	case PTRACE_POKEUSR:
		return ob_user_write(child, address, data);
	case PTRACE_GETREGS:
		return ob_regset_read(child, OB_REGSET_GENERAL, area);
	case PTRACE_SETREGS:
		return ob_regset_write(child, OB_REGSET_GENERAL, area);
	case PTRACE_GETFPREGS:
		return ob_regset_read(child, OB_REGSET_LEGACY, area);
	case PTRACE_SETFPREGS:
		return ob_regset_write(child, OB_REGSET_LEGACY, area);
	case PTRACE_ARCH_PRCTL:
		return ob_arch_prctl(task_pt_regs(child), data, address);
	}
	return ptrace_request(child, request, address, data);
}
