// SPDX-License-Identifier: GPL-2.0-only
/*
 * The context switch. The vCPU goes with it:
 *
 *   coroutine -> coroutine    the thread changes stacks; no host call
 *   coroutine -> host-bound   the thread goes back to its own stack FIRST, so that the
 *                             coroutine can be resumed elsewhere or freed, then passes the baton
 *   host-bound -> idle        the thread lends itself, and goes on with the idle coroutine
 *   host-bound -> coroutine   the baton goes to the vCPU's carrier
 *   host-bound -> host-bound  the baton goes from thread to thread
 *
 * The thread of a host-bound task may not come either. So the side that switches ends the switch in
 * its place: it unlocks the run queue and leaves the vCPU parked on the task (V15). What Linux has the
 * task do at the end of a switch is done again when its thread comes, for a switch from the idle task
 * that was none.
 *
 * A host thread that gives the baton away waits for its own; unless it acts for
 * a task that leaves it: a thread that evicts the parked task, or
 * a client thread whose task exits. Those come to the switch on a stack that is only good for that, and
 * go on on their own.
 *
 * Interrupts are off throughout. Nothing that was read from the thread's block
 * before a switch is used after it.
 */
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <asm/switch_to.h>
#include "delay.h"
#include "runqueue.h"
#include "thread.h"
#include "vcpu.h"

void schedule_tail(struct task_struct *prev);

/* After leaving a coroutine for good: its stack can be freed now. */
void ob_switch_finished(void)
{
	struct ob_carrier *carrier = &ob_this_vcpu()->carrier;

	if (carrier->dead_stack) {
		ob_stack_free(carrier->dead_stack);
		carrier->dead_stack = NULL;
	}
}

/*
 * Ends the switch to `next`, which is host-bound, in the place of its thread. That has no more part
 * in it than to come. Interrupts of the vCPU are taken here as the task's. `state`: of the vCPU then.
 */
static void ob_switch_end(struct ob_vcpu *vcpu, struct task_struct *next, unsigned long state)
{
	struct task_struct *own = current;
	struct ob_loan loan = { .task = own };

	/* Meanwhile the calling thread is lent: a handler of the program finds its own task (eintr.c). */
	barrier();
	WRITE_ONCE(ob_this_thread->loan, &loan);
	ob_bind(vcpu, next, ob_this_thread->self);
	WRITE_ONCE(next->thread.evicted, 0);
	schedule_tail(vcpu->switched_from);
	ob_this_thread->irqs_off = 1;
	barrier();
	if (own)
		ob_set_task(own);
	else
		ob_unbind();
	WRITE_ONCE(ob_this_thread->loan, NULL);
	ob_delay_point();
	xchg(&vcpu->state, state);
	ob_delay_point();
	if (READ_ONCE(vcpu->pending))
		ob_kick(vcpu);
}

/*
 * A task that has gone through most of its end has no signals, which the end of a switch looks at: its
 * thread ends the switch. It runs on a stack of ours there, and only its last steps are left.
 */
static bool ob_switch_can_end(struct task_struct *next)
{
	return likely(next->sighand) && !READ_ONCE(ob_machine.stopping);
}

/* Gives the vCPU to the thread that runs `next`. Returns true if that is the calling one, which waits for `own`. */
bool ob_pass_to(struct ob_vcpu *vcpu, struct task_struct *next, const u32 *own)
{
	struct ob_adoption *adoption = next->thread.adoption;
	u32 *baton = &next->thread.baton;

	if (next->thread.coroutine) {
		ob_service_needed(vcpu);
		vcpu->carrier.to_run = next;
		baton = &vcpu->carrier.baton;
	} else if (adoption) {
		next->thread.adoption = NULL;
		adoption->task = next;
		baton = &adoption->baton;
	}
	if (baton == own)
		return true;
	if (!next->thread.coroutine && READ_ONCE(next->thread.evicted) & OB_EVICTED_WORKING) {
		ob_work_end(vcpu, next);
		return false;
	}
	if (!next->thread.coroutine && ob_switch_can_end(next)) {
		/* There was no stack for its exit work, and its thread has not asked for it. */
		if (cmpxchg(&next->thread.evicted, OB_EVICTED_OUT, 0) == OB_EVICTED_OUT) {
			ob_switch_end(vcpu, next, ob_moved(next));
			return false;
		}
		ob_switch_end(vcpu, next, ob_arriving(next));
	}
	ob_baton_pass(baton);
	return false;
}

/*
 * The calling thread comes for its task: it was evicted, or its baton was passed, or (`switched`) the
 * thread has itself switched to it. Afterwards it holds the task's vCPU. Returns true if the switch has
 * to be ended: the run queue is locked. Blocks.
 */
bool ob_arrive(struct task_struct *task, bool switched)
{
	while (!switched) {
		struct ob_vcpu *vcpu = task->thread.vcpu;
		unsigned long state = ob_arriving(task);

		if (READ_ONCE(task->thread.evicted)) {
			switched = ob_evicted_wake_and_wait(task);
			continue;
		}
		ob_delay_point();
		if (try_cmpxchg(&vcpu->state, &state, OB_VCPU_HELD) ||
		    (state == ob_moved(task) && try_cmpxchg(&vcpu->state, &state, OB_VCPU_HELD)))
			break;
		ob_delay_point();
		/* Nobody could end the switch for us. */
		if (state == OB_VCPU_HELD && !READ_ONCE(task->thread.evicted) && !ob_switch_can_end(task))
			switched = true;
		else
			ob_host_thread_yield(ob_host);
	}
	ob_bind(task->thread.vcpu, task, ob_this_thread->self);
	ob_delay_point();
	if (task->thread.plug) {
		task->plug = task->thread.plug;
		task->thread.plug = NULL;
	}
	WRITE_ONCE(task->thread.evicted, 0);
	return switched;
}

/* What ob_switch_end() has done, the task will do again: makes it a switch from the idle task. */
static void ob_switch_begin_again(struct ob_vcpu *vcpu)
{
	struct rq *queue;

	trace_hardirqs_off();
	preempt_disable();
	queue = this_rq();
	raw_spin_rq_lock(queue);
	spin_release(&__rq_lockp(queue)->dep_map, _THIS_IP_);
	vcpu->switched_from = idle_task(vcpu->id);
}

/* Short enough for the calling thread, if that is lent (L1)? */
static bool ob_may_carry(struct task_struct *next)
{
	return !ob_this_thread->loan || is_idle_task(next) || next == ob_machine.leader;
}

static void ob_switch_coroutine(struct ob_vcpu *vcpu, struct task_struct *prev,
				struct task_struct *next)
{
	if (READ_ONCE(prev->__state) == TASK_DEAD)
		vcpu->carrier.dead_stack = prev->thread.stack;
	if (next->thread.coroutine && ob_may_carry(next)) {
		ob_this_thread->task = next;
		ob_coroutine_switch(&prev->thread.coroutine, next->thread.coroutine);
	} else {
		vcpu->carrier.pass_to = next;
		ob_coroutine_switch(&prev->thread.coroutine, vcpu->carrier.context);
	}
	ob_switch_finished();
}

/* For a task that leaves its thread: back to the thread's own stack, which goes on with ob_give_up(). */
static void ob_switch_leave(struct ob_vcpu *vcpu, struct task_struct *prev, struct task_struct *next)
{
	void **leave_to = READ_ONCE(prev->thread.evicted) ? &vcpu->service.context : prev->thread.argument;
	void *abandoned;

	vcpu->carrier.pass_to = next;
	ob_coroutine_switch(&abandoned, *leave_to);
}

static void ob_switch_host_bound(struct ob_vcpu *vcpu, struct task_struct *prev,
				 struct task_struct *next)
{
	bool switched = false;

	ob_delay_point();
	if (READ_ONCE(prev->thread.evicted) || READ_ONCE(prev->__state) == TASK_DEAD)
		ob_switch_leave(vcpu, prev, next);
	if (is_idle_task(next)) {
		switched = ob_lend(vcpu, &prev->thread.baton);
	} else {
		ob_pass_to(vcpu, next, NULL);
		ob_baton_wait(&prev->thread.baton);
	}
	if (!ob_arrive(prev, switched))
		ob_switch_begin_again(ob_this_vcpu());
}

struct task_struct *__switch_to(struct task_struct *prev, struct task_struct *next)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();

	if (unlikely(READ_ONCE(next->thread.evicted) == OB_EVICTED_OUT && !next->thread.stack))
		ob_work_begin(next);
	vcpu->switched_from = prev;
	prev->thread.regs.bp = (unsigned long)__builtin_frame_address(0);
	next->thread.vcpu = vcpu;
	if (prev->thread.stack)
		ob_switch_coroutine(vcpu, prev, next);
	else
		ob_switch_host_bound(vcpu, prev, next);
	return ob_this_vcpu()->switched_from;
}
