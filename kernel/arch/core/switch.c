// SPDX-License-Identifier: GPL-2.0-only
/*
 * The context switch. The vCPU goes with it:
 *
 *   coroutine -> coroutine    the carrier changes stacks; no host call
 *   coroutine -> host-bound   the carrier goes back to its own stack FIRST, so that the
 *                             coroutine can be resumed elsewhere or freed, then passes the baton
 *   host-bound -> coroutine   the baton goes to the vCPU's carrier
 *   host-bound -> host-bound  the baton goes from thread to thread
 *
 * A host thread that gives the baton away waits for its own; unless it acts for
 * a task that leaves it: a service thread that evicts the parked task, or
 * a client thread whose task exits. Those do it on a stack that is only good for that, and
 * come back to their own.
 *
 * Interrupts are off throughout. Nothing that was read from the thread's block
 * before a switch is used after it.
 */
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <asm/switch_to.h>
#include "delay.h"
#include "snapshot.h"
#include "thread.h"
#include "vcpu.h"

/* After leaving a coroutine for good: its stack can be freed now. */
void ob_switch_finished(void)
{
	struct ob_carrier *carrier = &ob_this_vcpu()->carrier;

	if (carrier->dead_stack) {
		ob_stack_free(carrier->dead_stack);
		carrier->dead_stack = NULL;
	}
}

static void ob_pass_to(struct task_struct *next)
{
	struct ob_adoption *adoption = next->thread.adoption;

	if (adoption) {
		next->thread.adoption = NULL;
		adoption->task = next;
		ob_baton_pass(&adoption->baton);
	} else {
		ob_baton_pass(&next->thread.baton);
	}
}

static void ob_switch_coroutine(struct ob_vcpu *vcpu, struct task_struct *prev,
				struct task_struct *next)
{
	if (READ_ONCE(prev->__state) == TASK_DEAD)
		vcpu->carrier.dead_stack = prev->thread.stack;
	if (next->thread.coroutine) {
		ob_this_thread->task = next;
		ob_coroutine_switch(&prev->thread.coroutine, next->thread.coroutine);
	} else {
		vcpu->carrier.pass_to = next;
		ob_coroutine_switch(&prev->thread.coroutine, vcpu->carrier.context);
	}
	ob_switch_finished();
}

static void ob_switch_host_bound(struct ob_vcpu *vcpu, struct task_struct *prev,
				 struct task_struct *next)
{
	bool leaving = ob_this_thread->kind == OB_THREAD_SERVICE ||
		       READ_ONCE(prev->__state) == TASK_DEAD;
	void **leave_to = ob_this_thread->kind == OB_THREAD_SERVICE ?
			  &vcpu->service.context : prev->thread.argument;
	void *abandoned;

	ob_delay_point();
	if (next->thread.coroutine) {
		vcpu->carrier.run = next;
		ob_baton_pass(&vcpu->carrier.baton);
	} else {
		ob_pass_to(next);
	}
	/* The vCPU, and a dead prev, are somebody else's now. */
	if (leaving)
		ob_coroutine_switch(&abandoned, *leave_to);
	ob_baton_wait(&prev->thread.baton);
	ob_bind(prev->thread.vcpu, prev);
}

struct task_struct *__switch_to(struct task_struct *prev, struct task_struct *next)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();

	vcpu->switched_from = prev;
	prev->thread.regs.bp = (unsigned long)__builtin_frame_address(0);
	next->thread.vcpu = vcpu;
	if (prev->thread.stack)
		ob_switch_coroutine(vcpu, prev, next);
	else
		ob_switch_host_bound(vcpu, prev, next);
	return ob_this_vcpu()->switched_from;
}

/*
 * A carrier's life: run coroutines until one of them gives the vCPU to a
 * host-bound task, pass it, wait to get it back.
 */
static void ob_carrier_main(void *argument)
{
	struct ob_vcpu *vcpu = argument;
	struct ob_carrier *carrier = &vcpu->carrier;

	ob_this_thread->kind = OB_THREAD_CARRIER;
	ob_this_thread->irqs_off = 1;
	carrier->thread = ob_host_thread_self();
	while (!READ_ONCE(ob_machine.stopping)) {
		struct task_struct *next = carrier->run;

		ob_bind(vcpu, next);
		ob_coroutine_switch(&carrier->context, next->thread.coroutine);
		ob_switch_finished();
		ob_this_thread->task = NULL;
		ob_delay_point();
		if (READ_ONCE(ob_machine.stopping))
			break;
		if (!carrier->pass_to) {
			ob_parked_wait(carrier);
			continue;
		}
		ob_pass_to(carrier->pass_to);
		ob_baton_wait(&carrier->baton);
	}
	ob_this_thread->task = NULL;
}

/* The idle coroutine gives its vCPU to nobody: its carrier waits until it shall go on (snapshot.c). */
void ob_idle_park(void)
{
	struct ob_carrier *carrier = &ob_this_vcpu()->carrier;

	carrier->run = current;
	carrier->pass_to = NULL;
	ob_coroutine_switch(&current->thread.coroutine, carrier->context);
	ob_switch_finished();
}

/* Starts a vCPU: its carrier begins with the coroutine `first`. */
int ob_carrier_start(struct ob_vcpu *vcpu, struct task_struct *first)
{
	vcpu->state = OB_VCPU_HELD;
	vcpu->carrier.run = first;
	return ob_host_thread_create(ob_carrier_main, vcpu, "outboard-cpu", &vcpu->carrier.handle);
}

/* The machine has stopped: the calling carrier leaves its coroutine for good and ends. */
void __noreturn ob_carrier_leave(void)
{
	void *abandoned;

	ob_coroutine_switch(&abandoned, ob_this_vcpu()->carrier.context);
	unreachable();
}
