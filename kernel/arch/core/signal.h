/* SPDX-License-Identifier: GPL-2.0-only */
/* Exit work and signals of clients: signal.c. */
#ifndef OUTBOARD_CORE_SIGNAL_H
#define OUTBOARD_CORE_SIGNAL_H

#include <linux/types.h>

struct sigaction;

/* What a thread does after its exit work. */
enum ob_exit {
	OB_EXIT_LEAVE,		/* leave the kernel */
	OB_EXIT_AGAIN,		/* make the system call again */
	/*
	 * The task has ended, and the machine may have halted or booted again since. The thread
	 * touches nothing of the kernel any more.
	 */
	OB_EXIT_GONE,
};

/* How a task ends on its way out of the kernel. */
enum ob_ending {
	OB_ENDING_NOT,
	OB_ENDING_THREAD,
	OB_ENDING_PROCESS,
};

enum ob_exit ob_signal_work(long *result);
void ob_end_later(enum ob_ending ending, int code);
void ob_signals_ignore(void);
long ob_sys_rt_sigaction(int number, const struct sigaction __user *action,
			 struct sigaction __user *before, size_t size);

#endif
