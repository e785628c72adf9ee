/* SPDX-License-Identifier: GPL-2.0-only */
/* Tasks of programs: space_task.c. */
#ifndef OUTBOARD_CORE_SPACE_TASK_H
#define OUTBOARD_CORE_SPACE_TASK_H

struct kernel_clone_args;
struct pt_regs;
struct thread_struct;

int ob_program_copy(struct thread_struct *thread, const struct kernel_clone_args *args);
long ob_arch_prctl(struct pt_regs *regs, int option, unsigned long address);
long ob_program_arch_prctl(int option, unsigned long address);

#endif
