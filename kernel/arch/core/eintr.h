/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls that end early: eintr.c. */
#ifndef OUTBOARD_CORE_EINTR_H
#define OUTBOARD_CORE_EINTR_H

#include <linux/atomic.h>
#include <linux/sched.h>

/* Bits of thread.interrupted: eintr.c. */
#define OB_EINTR_MARKED 1
#define OB_EINTR_ABORTED 2

static inline atomic_t *ob_eintr_word(struct task_struct *task)
{
	return (atomic_t *)&task->thread.interrupted;
}

/* Whether the task's next call that would block fails with EINTR. */
static inline bool ob_eintr_is_marked(struct task_struct *task)
{
	return READ_ONCE(task->thread.interrupted) & OB_EINTR_MARKED;
}

/* The call under way fails with EINTR. Returns whether the task was marked. */
static inline bool ob_eintr_take(void)
{
	return atomic_fetch_andnot(OB_EINTR_MARKED, ob_eintr_word(current)) & OB_EINTR_MARKED;
}

void ob_eintr_run(void);
bool ob_eintr_survives(void);

#endif
