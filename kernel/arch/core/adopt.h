/* SPDX-License-Identifier: GPL-2.0-only */
/* How a host thread becomes a task: adopt.c. */
#ifndef OUTBOARD_CORE_ADOPT_H
#define OUTBOARD_CORE_ADOPT_H

#include <linux/types.h>

struct cred;
struct ob_vcpu;
struct task_struct;

struct ob_adoption {
	u32 baton;
	int error;
	struct task_struct *task;	/* set before the baton is passed, unless `error` is */
	struct ob_adoption *next;
	struct ob_vcpu *vcpu;		/* where the task shall begin; NULL: anywhere */
	u64 host_thread;
	struct task_struct *parent;	/* clones itself */
	unsigned long flags;		/* of that clone: CLONE_... */
	const struct cred *cred;	/* NULL: the parent's */
};

int ob_client_main(void *adoption);
void ob_adoption_begin(struct task_struct *task, struct ob_adoption *adoption);
void ob_adoptions_await(void);
void ob_adoptions_serve(void);
void ob_adoptions_wake(void);
int ob_adopt(void);

#endif
