// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a task does on its way out of the kernel (V9), and signals.
 *
 * A client's signal handler is a function of the program. It is called as one, on the client's own
 * thread, out in host code, with the signal mask that Linux would set. When it returns, the mask is
 * restored. There is no signal frame.
 *
 * A signal without a handler whose default is to end the process is ignored: a library must not
 * end. Linux learns this from SIG_IGN in the place of SIG_DFL. SIGNAL_UNKILLABLE, as init has it,
 * does not suffice: the leader has blocked all signals, and Linux keeps a blocked one without
 * asking whether it would be ignored. In a process of its own (process.c) signals act as in Linux.
 */
#include <linux/resume_user_mode.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/signal.h>
#include <linux/syscalls.h>
#include <linux/task_work.h>
#include <linux/uaccess.h>
#include "adopt.h"
#include "eintr.h"
#include "gate.h"
#include "machine.h"
#include "signal.h"
#include "thread.h"

/* Whether to make the interrupted call again, once the handler, if any, has run. */
static bool ob_restart(long *result, const struct ksignal *handled)
{
	bool again;

	switch (*result) {
	case -ERESTARTSYS:
		again = !handled || handled->ka.sa.sa_flags & SA_RESTART;
		break;
	case -ERESTARTNOINTR:
		again = true;
		break;
	case -ERESTARTNOHAND:
	case -ERESTART_RESTARTBLOCK:
		again = !handled;
		break;
	case -EINTR:
		again = false;
		break;
	default:
		return false;
	}
	if (!ob_eintr_take() && again)
		return true;
	*result = -EINTR;
	return false;
}

static bool ob_is_deadly(int number)
{
	return valid_signal(number) && number > 0 && !sig_kernel_only(number) &&
	       !sig_kernel_ignore(number) && !sig_kernel_stop(number);
}

/* For the process of the calling leader. */
void ob_signals_ignore(void)
{
	int number;

	for (number = 1; number <= _NSIG; number++)
		if (ob_is_deadly(number))
			current->sighand->action[number - 1].sa.sa_handler = SIG_IGN;
}

static int ob_set_action(int number, struct k_sigaction *new, struct k_sigaction *old)
{
	if (new && ob_is_deadly(number) && new->sa.sa_handler == SIG_DFL &&
	    !ob_is_of_process(current))
		new->sa.sa_handler = SIG_IGN;
	return do_sigaction(number, new, old);
}

long ob_sys_rt_sigaction(int number, const struct sigaction __user *action,
			 struct sigaction __user *before, size_t size)
{
	struct k_sigaction new, old;
	int error;

	if (size != sizeof(sigset_t))
		return -EINVAL;
	if (action && copy_from_user(&new.sa, action, sizeof(new.sa)))
		return -EFAULT;
	error = ob_set_action(number, action ? &new : NULL, &old);
	if (!error && before && copy_to_user(before, &old.sa, sizeof(old.sa)))
		return -EFAULT;
	return error;
}

/* A handler for one signal only: Linux has made the action SIG_DFL. */
static void ob_action_used_up(int number)
{
	struct k_sigaction none = { .sa.sa_handler = SIG_DFL };

	ob_set_action(number, &none, NULL);
}

/*
 * Returns 0; or an error: the task does not exist any more. If it ends on the way out, the handler
 * runs all the same, and the thread does not enter the kernel again.
 */
static int ob_call_handler(struct ksignal *signal)
{
	unsigned long parked = ob_this_thread->parked;
	u32 boot = ob_this_thread->boot;
	void (*handler)(int, siginfo_t *, void *) = (void *)signal->ka.sa.sa_handler;
	sigset_t mask = *sigmask_to_save();
	siginfo_t info;
	int error;

	memset(&info, 0, sizeof(info));
	copy_siginfo_to_external(&info, &signal->info);
	signal_setup_done(0, signal, 0);
	if (signal->ka.sa.sa_flags & SA_ONESHOT)
		ob_action_used_up(signal->sig);
	ob_leave(0);
	handler(signal->sig, &info, NULL);
	error = ob_enter_again(parked, boot);
	if (!error)
		set_current_blocked(&mask);
	return error;
}

/*
 * get_signal() must not find a SIGKILL: only ob_signal_work() ends a client's task, which takes a
 * stack of its own.
 */
static void ob_hold_kill(bool hold)
{
	spin_lock_irq(&current->sighand->siglock);
	if (hold)
		sigaddset(&current->blocked, SIGKILL);
	else
		sigdelset(&current->blocked, SIGKILL);
	recalc_sigpending();
	spin_unlock_irq(&current->sighand->siglock);
}

struct ob_taken {
	struct ksignal signal;
	bool handled;			/* there is one, and it has a handler */
};

static void ob_take_signal(void *argument)
{
	struct ob_taken *taken = argument;

	taken->handled = get_signal(&taken->signal);
}

/* Returns false if a signal has ended the task, whose process is its own. */
static bool ob_take_signal_of_client(struct ob_taken *taken)
{
	if (ob_is_of_process(current))
		return ob_run_apart(ob_take_signal, taken);
	ob_hold_kill(true);
	ob_take_signal(taken);
	ob_hold_kill(false);
	return true;
}

/* The calling task, or its process, ends on its way out of the kernel. `code`: as for exit(2). */
void ob_end_later(enum ob_ending ending, int code)
{
	current->thread.exit_code = (code & 0xff) << 8;
	current->thread.ending = ending;
	set_thread_flag(TIF_NOTIFY_RESUME);
}

static void ob_end(void *unused)
{
	if (current->thread.ending == OB_ENDING_PROCESS)
		do_group_exit(current->thread.exit_code);
	do_exit(current->thread.exit_code);
}

/* The calling thread has no task any more, which was one of a process of its own. */
static enum ob_exit ob_process_is_gone(long *result, long value)
{
	ob_this_thread->kind = OB_THREAD_ENDED;
	*result = value;
	return OB_EXIT_GONE;
}

static enum ob_exit ob_signals_deliver(long *result)
{
	struct ob_taken taken;
	bool again;
	int error;

	if (!ob_take_signal_of_client(&taken))
		return ob_process_is_gone(result, READ_ONCE(ob_machine.halting) ? -ENODEV : -ESRCH);
	if (!taken.handled) {
		again = ob_restart(result, NULL);
		restore_saved_sigmask();
		return again ? OB_EXIT_AGAIN : OB_EXIT_LEAVE;
	}
	again = ob_restart(result, &taken.signal);
	error = ob_call_handler(&taken.signal);
	if (error) {
		*result = error;
		return OB_EXIT_GONE;
	}
	return again ? OB_EXIT_AGAIN : OB_EXIT_LEAVE;
}

/*
 * Does the exit work except rescheduling. A task that was killed, by halt or a limit, ends here.
 */
enum ob_exit ob_signal_work(long *result)
{
	enum ob_exit exit = OB_EXIT_LEAVE;

	if (unlikely(current->thread.ending)) {
		ob_run_apart(ob_end, NULL);
		return ob_process_is_gone(result, 0);
	}
	if (fatal_signal_pending(current) && !ob_is_of_process(current) && !ob_eintr_survives()) {
		ob_task_exit();
		*result = -ENODEV;
		return OB_EXIT_GONE;
	}
	if (test_thread_flag(TIF_NOTIFY_SIGNAL) || test_thread_flag(TIF_SIGPENDING))
		exit = ob_signals_deliver(result);
	else if (test_thread_flag(TIF_RESTORE_SIGMASK))
		restore_saved_sigmask();
	if (exit == OB_EXIT_GONE)
		return exit;
	if (test_thread_flag(TIF_NOTIFY_RESUME))
		resume_user_mode_work(current_pt_regs());
	if (ob_eintr_is_marked(current))
		set_thread_flag(TIF_NOTIFY_SIGNAL);
	return exit;
}
