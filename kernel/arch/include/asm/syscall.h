/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_SYSCALL_H
#define _ASM_OUTBOARD_SYSCALL_H

#include <uapi/linux/audit.h>
#include <linux/err.h>
#include <linux/sched.h>
#include <linux/string.h>

typedef long (*ob_syscall_function)(long, long, long, long, long, long);
extern const ob_syscall_function sys_call_table[];

static inline int syscall_get_nr(struct task_struct *task, struct pt_regs *regs)
{
	return regs->number;
}

static inline void syscall_rollback(struct task_struct *task, struct pt_regs *regs)
{
}

static inline long syscall_get_error(struct task_struct *task, struct pt_regs *regs)
{
	return IS_ERR_VALUE(regs->result) ? regs->result : 0;
}

static inline long syscall_get_return_value(struct task_struct *task, struct pt_regs *regs)
{
	return regs->result;
}

static inline void syscall_set_return_value(struct task_struct *task, struct pt_regs *regs,
					    int error, long value)
{
	regs->result = error ?: value;
}

static inline void syscall_get_arguments(struct task_struct *task, struct pt_regs *regs,
					 unsigned long *arguments)
{
	memcpy(arguments, regs->arguments, sizeof(regs->arguments));
}

static inline int syscall_get_arch(struct task_struct *task)
{
	return AUDIT_ARCH_X86_64;
}
#endif
