/* SPDX-License-Identifier: GPL-2.0-only */
/* Exit work of tasks whose threads are out: work.c. */
#ifndef OUTBOARD_CORE_WORK_H
#define OUTBOARD_CORE_WORK_H

struct ob_vcpu;
struct task_struct;

void ob_work_begin(struct task_struct *task);
void ob_work_note(struct ob_vcpu *vcpu, struct task_struct *task);
void ob_work_end(struct ob_vcpu *vcpu, struct task_struct *task);

#endif
