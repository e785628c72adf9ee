// SPDX-License-Identifier: GPL-2.0-only
/*
 * Signals: memory faults (SIGSEGV, SIGBUS) and the preempt signal.
 *
 * A handler runs on the current stack, which may be a coroutine's. It may return on another host
 * thread than it was entered on, because the kernel switches coroutines inside ob_kernel_fault and
 * ob_kernel_preempt. Therefore:
 *  - no SA_ONSTACK: an alternate stack belongs to one thread and is small;
 *  - SA_NODEFER and an empty mask: the signal mask is the same before a handler and within it, so
 *    a handler may return on any thread. The preempt signal is blocked at first, or many of them
 *    would pile up. It is unblocked before the upcall, when interrupts are off and another one has
 *    no effect;
 *  - nothing caches a TLS address across the upcall: functions that are not inlined save and
 *    restore errno;
 *  - frames are small.
 *
 * A process may have several kernels: each is asked whether the signal is its own.
 *
 * A signal that is no kernel's goes to the handler that was installed before. That handler runs on
 * the current stack even if it asked for an alternate one. If a thread has no stack left to run a
 * handler on, the host ends it with SIGSEGV.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "internal.h"

#define PAGE_FAULT_WRITE 2	/* in the error code of an x86 page fault */

/* A signal that the platform handles, and the handler before it. */
struct handled_signal {
	int number;
	void (*handler)(int number, siginfo_t *info, void *context);
	int flags;
	struct sigaction before;
	/* The program's later handler, which calls ours, could not be removed. */
	bool covered;
};

static void on_fault(int number, siginfo_t *info, void *context);
static void on_preempt(int number, siginfo_t *info, void *context);

static struct handled_signal handled[] = {
	{ .number = SIGSEGV, .handler = on_fault, .flags = SA_SIGINFO | SA_NODEFER },
	{ .number = SIGBUS, .handler = on_fault, .flags = SA_SIGINFO | SA_NODEFER },
	{ .number = OB_PREEMPT_SIGNAL, .handler = on_preempt, .flags = SA_SIGINFO | SA_RESTART },
};

#define HANDLED_SIGNALS (sizeof(handled) / sizeof(handled[0]))

static __attribute__((noinline)) int errno_save(void)
{
	return errno;
}

static __attribute__((noinline)) void errno_restore(int saved)
{
	errno = saved;
}

static struct handled_signal *find_handled(int number)
{
	struct handled_signal *h = handled;

	while (h->number != number)
		h++;
	return h;
}

/* The default action: ends the program, with a core dump where the signal has one. */
static void default_action(int number, const siginfo_t *info)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	struct ob_host *host;

	sigaction(number, &action, NULL);
	ob_for_each_live_host(host)
		ob_posix_ram_skip_unused(host);
	/*
	 * A signal of a fault repeats by itself when the instruction runs again. One that was sent
	 * is sent again.
	 */
	if (info->si_code <= 0)
		raise(number);
}

static void call_handler(int number, siginfo_t *info, void *context, const struct sigaction *before)
{
	sigset_t mask = before->sa_mask, own, saved;

	sigemptyset(&own);
	sigaddset(&own, number);
	pthread_sigmask(SIG_BLOCK, &mask, &saved);
	pthread_sigmask(before->sa_flags & SA_NODEFER ? SIG_UNBLOCK : SIG_BLOCK, &own, NULL);
	if (before->sa_flags & SA_SIGINFO)
		before->sa_sigaction(number, info, context);
	else
		before->sa_handler(number);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

static bool is_handler(const struct sigaction *action)
{
	return (action->sa_flags & SA_SIGINFO) ||
	       (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

/* Passes a signal that is no kernel's to the handler before ours. */
static void chain(int number, siginfo_t *info, void *context)
{
	struct handled_signal *h = find_handled(number);
	struct sigaction before = h->before;

	if (is_handler(&before)) {
		if (before.sa_flags & (int)SA_RESETHAND)
			h->before = (struct sigaction){ .sa_handler = SIG_DFL };
		call_handler(number, info, context, &before);
	} else if (number == OB_PREEMPT_SIGNAL) {
		return;		/* ignored by default */
	} else if (before.sa_handler == SIG_DFL || info->si_code > 0) {
		default_action(number, info);	/* a real fault cannot be ignored */
	}
}

static int wanted_access(const struct ob_fault *fault)
{
	if (fault->flags & OB_FAULT_WRITE)
		return PROT_WRITE;
	return fault->flags & OB_FAULT_EXECUTE ? PROT_EXEC : PROT_READ;
}

/* A fault that the platform itself resolves: the access can be tried again. */
static bool is_repeated(struct ob_host *host, const struct ob_fault *fault)
{
	if (ob_posix_closed_touched(host, fault->address, wanted_access(fault)))
		return true;
	if (!(fault->flags & OB_FAULT_WRITE) ||
	    !ob_posix_pages_fault_is_passing(host, fault->address))
		return false;
	sched_yield();
	return true;
}

/* A general protection fault has no address. */
static uint32_t fault_flags(const siginfo_t *info, const greg_t *registers)
{
	if (info->si_code == SI_KERNEL)
		return OB_FAULT_NO_ADDRESS;
	if (registers[REG_ERR] & PAGE_FAULT_WRITE)
		return OB_FAULT_WRITE;
	return (greg_t)info->si_addr == registers[REG_RIP] ? OB_FAULT_EXECUTE : 0;
}

static bool handle_fault(const siginfo_t *info, ucontext_t *context)
{
	greg_t *registers = context->uc_mcontext.gregs;
	struct ob_host *host;
	struct ob_fault fault = {
		.address = (uint64_t)info->si_addr,
		.instruction = (uint64_t)registers[REG_RIP],
		.frame = (uint64_t)registers[REG_RBP],
		.stack = (uint64_t)registers[REG_RSP],
		.flags = fault_flags(info, registers),
	};

	if (info->si_code <= 0)
		return false;
	/* A copy of the process has no memory of the kernel, so no fault there passes. */
	if (info->si_signo == SIGSEGV && !ob_platform_is_copy())
		ob_for_each_live_host(host)
			if (is_repeated(host, &fault))
				return true;
	ob_for_each_live_host(host) {
		if (host->upcalls->fault(&fault)) {
			registers[REG_RIP] = (greg_t)fault.instruction;
			return true;
		}
	}
	return false;
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	int saved = errno_save();

	if (!handle_fault(info, context))
		chain(number, info, context);
	errno_restore(saved);
}

static void unblock(int number)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void on_preempt(int number, siginfo_t *info, void *context)
{
	int saved = errno_save();
	struct ob_host *host;

	/*
	 * A thread has room for one pending signal of each number. Ours may have been merged into a
	 * SIGURG from elsewhere, also of the program itself. So each SIGURG counts as a preemption,
	 * too.
	 */
	if (info->si_code != SI_QUEUE || info->si_value.sival_ptr != &ob_posix_preempt_mark)
		chain(number, info, context);
	ob_for_each_live_host(host) {
		if (host->upcalls->preempt_begin()) {
			unblock(number);
			host->upcalls->preempt();
		}
	}
	errno_restore(saved);
}

void ob_posix_signals_install(void)
{
	for (size_t i = 0; i < HANDLED_SIGNALS; i++) {
		struct handled_signal *h = &handled[i];
		struct sigaction action = { .sa_sigaction = h->handler, .sa_flags = h->flags };

		if (h->covered)
			continue;
		sigemptyset(&action.sa_mask);
		/* Read before our handler is in place: a signal may arrive at once. */
		sigaction(h->number, NULL, &h->before);
		sigaction(h->number, &action, NULL);
	}
}

void ob_posix_signals_remove(void)
{
	for (size_t i = 0; i < HANDLED_SIGNALS; i++) {
		struct handled_signal *h = &handled[i];
		struct sigaction now;

		sigaction(h->number, NULL, &now);
		if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == h->handler) {
			sigaction(h->number, &h->before, NULL);
			h->covered = false;
		} else {
			/* SIG_DFL and SIG_IGN call nothing: the next boot installs ours. */
			h->covered = is_handler(&now);
		}
	}
}
