// SPDX-License-Identifier: GPL-2.0-only
/*
 * Carriers. A thread carries a vCPU while it runs the vCPU's coroutines: kernel threads, the idle
 * task, init. Each vCPU has a host thread for that, its carrier. A client's thread may carry a vCPU
 * for a short time: it is lent (idle.c).
 *
 * The carrier's life, and a lent thread's: get the vCPU, run coroutines until one of them leaves to
 * `pass_to`, then give the vCPU to that task; NULL: the vCPU idles.
 */
#include <linux/sched.h>
#include <asm/host.h>
#include "baton.h"
#include "carrier.h"
#include "check.h"
#include "coroutine.h"
#include "delay.h"
#include "gate.h"
#include "idle.h"
#include "machine.h"
#include "stop.h"
#include "switch.h"
#include "vcpu.h"

/*
 * Runs the vCPU's coroutines, beginning with `first`. Returns the task to which the vCPU goes next;
 * NULL: the vCPU idles. `lent`: the thread is a client's.
 */
struct task_struct *ob_carry(struct ob_vcpu *vcpu, struct task_struct *first, bool lent)
{
	struct task_struct *own = current;
	struct ob_loan loan = { .task = own };

	/* At every step a signal handler of the program finds the thread's own task: eintr.c. */
	barrier();
	WRITE_ONCE(ob_this_thread->loan, lent ? &loan : NULL);
	ob_bind(vcpu, first, ob_this_thread->self);
	ob_coroutine_switch(&vcpu->carrier.context, first->thread.coroutine);
	ob_set_task(own);
	WRITE_ONCE(ob_this_thread->loan, NULL);
	ob_switch_finished();
	ob_delay_point();
	return vcpu->carrier.pass_to;
}

static void ob_carrier_main(void *argument)
{
	struct ob_vcpu *vcpu = argument;
	struct ob_carrier *carrier = &vcpu->carrier;

	ob_thread_begin(OB_THREAD_CARRIER);
	/* Another thread may hold the vCPU for long. */
	ob_this_thread->spinning.waits_to_skip = 1;
	ob_this_thread->irqs_off = 1;
	ob_this_thread->self = ob_host_thread_self(ob_host);
	for (;;) {
		struct task_struct *next;

		ob_idle_await(vcpu, &carrier->baton, OB_BATON_PASSED);
		ob_baton_wait(&carrier->baton);
		if (READ_ONCE(ob_machine.stopping))
			break;
		next = ob_carry(vcpu, carrier->to_run, false);
		if (READ_ONCE(ob_machine.stopping))
			break;
		ob_pass_or_idle(vcpu, next);
	}
	ob_thread_leaves(&carrier->left);
}

/* Is the calling thread on the stack of a coroutine? */
bool ob_is_on_coroutine(void)
{
	return current && current->thread.stack;
}

/* Makes the carrier of a vCPU that has started. */
int ob_carrier_start(struct ob_vcpu *vcpu)
{
	return ob_host_thread_create(ob_host, ob_carrier_main, vcpu, "outboard-cpu",
				     &vcpu->carrier.handle);
}

/* Starts a vCPU. Its carrier begins with the coroutine `first`. */
int ob_vcpu_start(struct ob_vcpu *vcpu, struct task_struct *first)
{
	unsigned long before = vcpu->state;

	vcpu->state = OB_VCPU_HELD;
	ob_vcpu_check(vcpu, before, OB_VCPU_HELD);
	vcpu->carrier.to_run = first;
	vcpu->carrier.baton = OB_BATON_PASSED;
	return ob_carrier_start(vcpu);
}

/* The machine has stopped. The calling thread leaves the coroutine that it is on for good. */
void __noreturn ob_carrier_leave(void)
{
	void *abandoned;

	ob_this_thread->irqs_off = 1;
	ob_this_vcpu()->carrier.pass_to = NULL;
	ob_coroutine_switch(&abandoned, ob_this_vcpu()->carrier.context);
	unreachable();
}
