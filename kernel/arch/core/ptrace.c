// SPDX-License-Identifier: GPL-2.0-only
/*
 * What ptrace(2) and core dumps want of an architecture. Of a client they get nothing: its
 * registers are its host thread's, and no host thread runs step by step. Programs: space_ptrace.c.
 */
#include <linux/ptrace.h>
#include <linux/regset.h>
#include <linux/sched.h>
#include "space_ptrace.h"
#include "space_regset.h"
#include "space_signal.h"

static long ob_client_ptrace(struct task_struct *client, long request, unsigned long address,
			     unsigned long data)
{
	/* As from a Linux that knows none of them. */
	switch (request) {
	case PTRACE_GETREGSET:
	case PTRACE_GET_SYSCALL_INFO:
	case PTRACE_SETREGSET:
	case PTRACE_SINGLESTEP:
	case PTRACE_SYSEMU:
	case PTRACE_SYSEMU_SINGLESTEP:
		return -EIO;
	}
	return ptrace_request(client, request, address, data);
}

long arch_ptrace(struct task_struct *child, long request, unsigned long address, unsigned long data)
{
	if (!child->thread.program)
		return ob_client_ptrace(child, request, address, data);
	return ob_program_ptrace(child, request, address, data);
}

void ptrace_disable(struct task_struct *child)
{
	user_disable_single_step(child);
}

/* Also of a new copy of a task. Only programs are ever run step by step. */
void user_disable_single_step(struct task_struct *child)
{
	if (test_and_clear_tsk_thread_flag(child, TIF_FORCED_TF))
		child->thread.regs.flags &= ~OB_FLAG_STEP;
	clear_tsk_thread_flag(child, TIF_SINGLESTEP);
}

static const struct user_regset_view ob_client_view = { .name = "outboard" };

const struct user_regset_view *task_user_regset_view(struct task_struct *task)
{
	return task->thread.program ? ob_program_view() : &ob_client_view;
}
