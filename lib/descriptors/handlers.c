// SPDX-License-Identifier: GPL-2.0-only
/*
 * Signal handlers. A signal of the host interrupts the thread, but not the call of the kernel that
 * the thread is in. So the program's handlers run behind one of this file, which ends that call.
 */
#define _GNU_SOURCE
#include <errno.h>

#include <outboard/outboard.h>
#include <outboard/syscalls.h>

#include "local.h"

static __thread volatile enum ob_local_call current_call;

/* The program's handlers, by number. Written before the handler is installed. */
static struct sigaction actions[NSIG];

void ob_local_enter(enum ob_local_call call)
{
	current_call = call;
}

void ob_local_leave(void)
{
	current_call = OB_LOCAL_OUTSIDE;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const struct sigaction *action = &actions[number];
	enum ob_local_call call = current_call;
	int before = errno;

	if (action->sa_flags & SA_SIGINFO)
		action->sa_sigaction(number, info, context);
	else
		action->sa_handler(number);
	if (call == OB_LOCAL_RESTARTS && action->sa_flags & SA_RESTART)
		call = OB_LOCAL_OUTSIDE;
	if (call != OB_LOCAL_OUTSIDE)
		ob_interrupt(0);
	errno = before;
}

/* The kernel's faults and interrupts come by these. */
static bool is_of_library(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGURG;
}

static bool is_function(const struct sigaction *action)
{
	return action->sa_flags & SA_SIGINFO ||
	       (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* Replaces this file's handler by the one that the program had installed. */
static void show_own(struct sigaction *old, const struct sigaction *own)
{
	if (old->sa_flags & SA_SIGINFO && old->sa_sigaction == on_signal)
		*old = *own;
}

static int install(int number, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction own = actions[number], wrapped = *action;
	int error;

	if (is_function(action)) {
		wrapped.sa_sigaction = on_signal;
		wrapped.sa_flags |= SA_SIGINFO;
		actions[number] = *action;
	}
	error = sigaction(number, &wrapped, old);
	if (error)
		actions[number] = own;
	else if (old)
		show_own(old, &own);
	return error;
}

int ob_local_sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	int error;

	if (number <= 0 || number >= NSIG)
		return sigaction(number, action, old);
	/* While a kernel runs, the library's handlers stay. */
	if (is_of_library(number))
		return sigaction(number, ob_sys_getpid() > 0 ? NULL : action, old);
	if (action)
		return install(number, action, old);
	error = sigaction(number, NULL, old);
	if (!error && old)
		show_own(old, &actions[number]);
	return error;
}

sighandler_t ob_local_signal(int number, sighandler_t handler)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART }, old;

	return ob_local_sigaction(number, &action, &old) ? SIG_ERR : old.sa_handler;
}
