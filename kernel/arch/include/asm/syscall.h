/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_SYSCALL_H
#define _ASM_OUTBOARD_SYSCALL_H

#include <uapi/linux/audit.h>
#include <linux/err.h>
#include <linux/sched.h>

typedef long (*ob_syscall_function)(long, long, long, long, long, long);
extern const ob_syscall_function sys_call_table[];	/* of clients */
extern const ob_syscall_function ob_program_call_table[];

/* core/syscall_table.c */
long sys_mmap(unsigned long address, unsigned long length, unsigned long protection,
	      unsigned long flags, unsigned long fd, unsigned long offset);

/* Only of programs are the registers known. */
static inline int syscall_get_nr(struct task_struct *task, struct pt_regs *regs)
{
	return task->thread.program ? regs->orig_ax : -1;
}

static inline void syscall_rollback(struct task_struct *task, struct pt_regs *regs)
{
	regs->ax = regs->orig_ax;
}

static inline long syscall_get_error(struct task_struct *task, struct pt_regs *regs)
{
	return IS_ERR_VALUE(regs->ax) ? regs->ax : 0;
}

static inline long syscall_get_return_value(struct task_struct *task, struct pt_regs *regs)
{
	return regs->ax;
}

static inline void syscall_set_return_value(struct task_struct *task, struct pt_regs *regs,
					    int error, long value)
{
	regs->ax = error ?: value;
}

static inline void syscall_get_arguments(struct task_struct *task, struct pt_regs *regs,
					 unsigned long *arguments)
{
	arguments[0] = regs->di;
	arguments[1] = regs->si;
	arguments[2] = regs->dx;
	arguments[3] = regs->r10;
	arguments[4] = regs->r8;
	arguments[5] = regs->r9;
}

static inline int syscall_get_arch(struct task_struct *task)
{
	return AUDIT_ARCH_X86_64;
}
#endif
