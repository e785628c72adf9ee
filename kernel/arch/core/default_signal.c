// SPDX-License-Identifier: GPL-2.0-only
/*
 * Signals for a process of its own (process.c) whose threads are out in host code. Linux would
 * interrupt the code there. Here the task takes the signals that end or stop it without its thread,
 * as a coroutine (work.c). Signals that have handlers wait for the thread.
 *
 * While a task's flag TIF_SIGPENDING is set and the task is not on a vCPU, Linux does not tell it
 * of further signals: it would look before it runs. So a task that goes on waiting for its thread
 * clears the flag, and the thread looks when it comes (`signals_wait`).
 */
#include <linux/sched.h>
#include <linux/sched/jobctl.h>
#include <linux/sched/signal.h>
#include <linux/signal.h>
#include <linux/task_work.h>
#include "adopt.h"
#include "default_signal.h"

static bool ob_acts_by_default(struct sighand_struct *sighand, int number)
{
	return READ_ONCE(sighand->action[number - 1].sa.sa_handler) == SIG_DFL &&
	       !sig_kernel_ignore(number);
}

/* Under the lock of the task's signals. */
static bool ob_default_signal_pends(void)
{
	sigset_t pending;
	int number;

	if (current->jobctl & JOBCTL_PENDING_MASK || current->signal->flags & SIGNAL_GROUP_EXIT)
		return true;
	sigorsets(&pending, &current->pending.signal, &current->signal->shared_pending.signal);
	sigandnsets(&pending, &pending, &current->blocked);
	for (number = 1; number <= _NSIG; number++)
		if (sigismember(&pending, number) &&
		    ob_acts_by_default(current->sighand, number))
			return true;
	return false;
}

/* Whether a task whose thread is out in host code has exit work to do without the thread. */
bool ob_work_pends(struct task_struct *task)
{
	return task_work_pending(task) ||
	       (ob_is_of_process(task) && test_tsk_thread_flag(task, TIF_SIGPENDING));
}

/* Adds the signals that have a handler to `set`. */
static void ob_add_handled(sigset_t *set)
{
	int number;

	for (number = 1; number <= _NSIG; number++) {
		__sighandler_t handler = current->sighand->action[number - 1].sa.sa_handler;

		if (handler != SIG_DFL && handler != SIG_IGN)
			sigaddset(set, number);
	}
}

/*
 * Takes the signals without a handler, on a stack that the task can end on. So it may not return.
 * Another thread may set a handler meanwhile: then that signal waits again.
 */
void ob_default_signals_take(void)
{
	struct ksignal signal;
	sigset_t blocked;
	bool handled;

	if (!ob_is_of_process(current) || !test_thread_flag(TIF_SIGPENDING))
		return;
	spin_lock_irq(&current->sighand->siglock);
	blocked = current->blocked;
	ob_add_handled(&current->blocked);
	recalc_sigpending();
	spin_unlock_irq(&current->sighand->siglock);
	handled = get_signal(&signal);
	spin_lock_irq(&current->sighand->siglock);
	current->blocked = blocked;
	if (!ob_default_signal_pends())
		clear_thread_flag(TIF_SIGPENDING);
	current->thread.signals_wait = true;
	spin_unlock_irq(&current->sighand->siglock);
	if (handled)
		send_sig_info(signal.sig, &signal.info, current);
}

/* By the thread that has come: looks at the signals that have waited for it. */
void ob_signals_recall(void)
{
	current->thread.signals_wait = false;
	spin_lock_irq(&current->sighand->siglock);
	recalc_sigpending();
	spin_unlock_irq(&current->sighand->siglock);
}
