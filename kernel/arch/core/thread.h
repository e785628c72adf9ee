/* SPDX-License-Identifier: GPL-2.0-only */
/* A host thread that waits to become a task: thread.c. */
#ifndef OUTBOARD_CORE_THREAD_H
#define OUTBOARD_CORE_THREAD_H

#include <linux/types.h>

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
#endif
