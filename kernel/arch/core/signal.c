// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a task does on its way out of the kernel (V9), and signals.
 *
 * A client's signal handler is a function of the program: it is called as one,
 * on the client's own thread, out in host code, with the signal mask that
 * Linux would set; when it returns, the mask is restored. There is no frame.
 */
#include <linux/resume_user_mode.h>
#include <linux/sched/signal.h>
#include <linux/signal.h>
#include <linux/syscalls.h>
#include <linux/task_work.h>
#include "vcpu.h"

/* Is the interrupted call to be made again, once the handler (if any) has run? */
static bool ob_restart(long *result, const struct ksignal *handled)
{
	switch (*result) {
	case -ERESTARTSYS:
		if (handled && !(handled->ka.sa.sa_flags & SA_RESTART))
			break;
		return true;
	case -ERESTARTNOINTR:
		return true;
	case -ERESTARTNOHAND:
	case -ERESTART_RESTARTBLOCK:
		if (!handled)
			return true;
		break;
	default:
		return false;
	}
	*result = -EINTR;
	return false;
}

/* If the machine has halted meanwhile, current is NULL afterwards. */
static void ob_call_handler(struct ksignal *signal)
{
	void (*handler)(int, siginfo_t *, void *) = (void *)signal->ka.sa.sa_handler;
	sigset_t mask = *sigmask_to_save();
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	copy_siginfo_to_external(&info, &signal->info);
	signal_setup_done(0, signal, 0);
	ob_leave(0);
	handler(signal->sig, &info, NULL);
	if (ob_enter())
		ob_this_thread->task = NULL;
	else
		set_current_blocked(&mask);
}

/* get_signal() must not find a SIGKILL: only ob_signal_work() ends a client's task, on a stack for that. */
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

static bool ob_signals_deliver(long *result)
{
	struct ksignal signal;
	bool again, handled;

	ob_hold_kill(true);
	handled = get_signal(&signal);
	ob_hold_kill(false);
	if (!handled) {
		again = ob_restart(result, NULL);
		restore_saved_sigmask();
		return again;
	}
	again = ob_restart(result, &signal);
	ob_call_handler(&signal);
	if (current)
		return again;
	*result = -ENODEV;
	return false;
}

/*
 * Does the exit work except rescheduling. Returns true if the system call is to
 * be made again. A task that was killed (when the machine halts, or by a limit)
 * ends here: current is NULL then.
 */
bool ob_signal_work(long *result)
{
	bool again = false;

	if (fatal_signal_pending(current)) {
		ob_task_exit();
		*result = -ENODEV;
		return false;
	}
	if (test_thread_flag(TIF_NOTIFY_SIGNAL) || test_thread_flag(TIF_SIGPENDING))
		again = ob_signals_deliver(result);
	else if (test_thread_flag(TIF_RESTORE_SIGMASK))
		restore_saved_sigmask();
	if (current && test_thread_flag(TIF_NOTIFY_RESUME))
		resume_user_mode_work(current_pt_regs());
	return again;
}
