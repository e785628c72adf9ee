/* SPDX-License-Identifier: GPL-2.0-only */
/* Evicted tasks: evict.c. */
#ifndef OUTBOARD_CORE_EVICT_H
#define OUTBOARD_CORE_EVICT_H

#include <linux/types.h>

struct ob_vcpu;
struct task_struct;

/*
 * Why a task cannot go on when its thread enters: evict.c. OUT, ARRIVING or WORKING, possibly with
 * WANTED; or GONE.
 */
enum ob_away {
	OB_AWAY_OUT = 1,		/* it sleeps: its thread is out in host code */
	OB_AWAY_ARRIVING = 2,		/* it sleeps: evicted in the state ARRIVING, baton passed */
	OB_AWAY_WORKING = 4,		/* it does exit work as a coroutine: work.c */
	OB_AWAY_WANTED = 8,		/* its thread waits for the task's baton */
	OB_AWAY_GONE = 16,		/* it has ended, as a coroutine: adopt.c */
};

struct ob_vcpu *ob_wake_list_add(struct task_struct *task);
void ob_evict(struct ob_vcpu *vcpu, struct task_struct *task, enum ob_away why);
bool ob_evicted_wake_and_wait(struct task_struct *task);
bool ob_task_end_evicted(struct task_struct *task);

#endif
