/* SPDX-License-Identifier: GPL-2.0-only */
/* How a host thread becomes a task: adopt.c. */
#ifndef OUTBOARD_CORE_ADOPT_H
#define OUTBOARD_CORE_ADOPT_H

#include <linux/sched.h>
#include <linux/types.h>

struct cred;
struct ob_vcpu;

struct ob_adoption {
	u32 baton;
	int error;
	struct task_struct *task;	/* set before the baton is passed, unless `error` is */
	struct ob_adoption *next;
	struct ob_vcpu *vcpu;		/* where the task shall begin; NULL: anywhere */
	u64 host_thread;
	struct task_struct *parent;	/* clones itself */
	u32 claims;			/* number of the task that it claims; 0: a new one */
	unsigned long flags;		/* of that clone: CLONE_... */
	const struct cred *cred;	/* NULL: the parent's */
};

/* Whether a task is of a process of its own, and has a host thread. */
enum ob_claim {
	OB_CLAIM_NONE,			/* a local client's, or no client's */
	OB_CLAIM_OPEN,			/* no thread has it yet */
	OB_CLAIM_TAKEN,			/* a thread has it */
	OB_CLAIM_VOID,			/* it has ended */
};

/* Whether the task is of a process of its own. */
static inline bool ob_is_of_process(struct task_struct *task)
{
	return task->thread.claim != OB_CLAIM_NONE;
}

int ob_client_main(void *adoption);
void ob_adoption_begin(struct task_struct *task, struct ob_adoption *adoption);
void ob_adoptions_await(void);
void ob_adoptions_serve(void);
void ob_adoptions_wake(void);
int ob_adopt(void);
int ob_client_clone(u64 flags, int signal);
int ob_claim(u32 number);
void ob_claim_open(struct task_struct *task);
void ob_claim_void(void);
void ob_claim_forsake(struct task_struct *task);
void ob_claim_release(void);

#endif
