// SPDX-License-Identifier: GPL-2.0-only
/*
 * The context switch, and the way of the vCPU with it:
 *
 *   from         to           what the thread does
 *   coroutine    coroutine    changes stacks; no host call. A lent thread does so only for short
 *                             work (L1); else as for a host-bound task
 *   coroutine    host-bound   returns to its own stack first, so that another thread can resume or
 *                             free the coroutine; then it passes the baton
 *   host-bound   idle         lends itself: idle.c
 *   host-bound   coroutine    passes the carrier's baton
 *   host-bound   host-bound   passes the baton to the task's thread
 *
 * The thread of a host-bound task may not come. So the switching thread ends the switch in the
 * task's place (ob_switch_end()): it unlocks the run queue, and leaves the vCPU parked on the task
 * (V15). The task's thread then comes (ob_arrive()), in one of three places. If it has made the
 * switch itself while it was lent, or no other thread could end it, the run queue is still locked:
 *
 *   place                     the run queue is unlocked     the run queue is locked
 *   adoption: ob_adopt()      nothing                       ends the switch (ob_switch_tail())
 *   entry of an evicted       nothing                       the same
 *   task: ob_enter_evicted()
 *   middle of schedule():     begins a switch from the      nothing: Linux ends the switch
 *   ob_switch_host_bound()    idle task, which Linux ends
 *
 * A thread that passes the vCPU on waits for its own baton. A thread that evicts a parked task, or
 * whose task exits, switches on a stack that is abandoned there, and continues on its own stack
 * (ob_switch_leave()). A service thread that evicts, and a thread whose task exits, do not wait. A
 * client's thread that evicts waits for its own task (ob_give_up_and_wait()).
 *
 * Interrupts are off, except inside schedule_tail() in ob_switch_end(), in a coroutine that a lent
 * thread carries, and while a client's thread takes the interrupts of a parked vCPU. Then `loan` is
 * set. No value that was read from the thread's block before a switch is used after it.
 */
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <asm/host.h>
#include <asm/switch_to.h>
#include "adopt.h"
#include "baton.h"
#include "check.h"
#include "coroutine.h"
#include "delay.h"
#include "evict.h"
#include "idle.h"
#include "machine.h"
#include "runqueue.h"
#include "service.h"
#include "space_vector.h"
#include "switch.h"
#include "vcpu.h"
#include "work.h"

/* Frees the stack of a coroutine that the calling thread has left for good. */
void ob_switch_finished(void)
{
	struct ob_carrier *carrier = &ob_this_vcpu()->carrier;

	if (carrier->dead_stack) {
		ob_stack_free(carrier->dead_stack);
		carrier->dead_stack = NULL;
	}
}

/*
 * Ends the switch to the host-bound task `next` in the place of its thread, which then only has to
 * come. Interrupts that the vCPU takes here run as that task. `state`: the vCPU's state afterwards.
 * Returns the task's word `away`, which was not 0 if the task was evicted until now.
 */
static u32 ob_switch_end(struct ob_vcpu *vcpu, struct task_struct *next, unsigned long state)
{
	struct task_struct *own = current;
	struct ob_loan loan = { .task = own };
	/* restart_syscall() sets the flag without a signal: schedule_tail() would clear it. */
	bool signal = test_tsk_thread_flag(next, TIF_SIGPENDING);
	u32 away;

	/* Lent meanwhile: a signal handler of the program finds the thread's own task (eintr.c). */
	barrier();
	WRITE_ONCE(ob_this_thread->loan, &loan);
	ob_bind(vcpu, next, ob_this_thread->self);
	away = xchg(&next->thread.away, 0);
	ob_away_check(away, 0);
	schedule_tail(vcpu->switched_from);
	if (signal)
		set_tsk_thread_flag(next, TIF_SIGPENDING);
	ob_this_thread->irqs_off = 1;
	barrier();
	ob_restore_current(own);
	ob_delay_point();
	ob_vcpu_check(vcpu, OB_VCPU_HELD, state);
	xchg(&vcpu->state, state);
	ob_delay_point();
	if (READ_ONCE(vcpu->pending))
		ob_kick(vcpu);
	return away;
}

/*
 * The end of a switch looks at the task's signals. A task that is nearly dead has no `sighand`: its
 * own thread ends the switch, as all threads do while the machine stops. If a handler of the
 * program or a debugger holds that thread up, the run queue stays locked: the exception of V15.
 */
static bool ob_switch_can_end(struct task_struct *next)
{
	return likely(next->sighand) && !READ_ONCE(ob_machine.stopping);
}

/*
 * Gives the vCPU to the thread that runs `next`. Returns true if that is the calling thread, whose
 * baton is `own`: then it goes on with `next` itself. The first case that holds counts:
 *
 *   a coroutine                        the carrier gets its baton
 *   the calling thread's task          returns true
 *   exit work is done                  ob_work_end()
 *   evicted, not wanted, no stack      parks the vCPU as MOVED
 *   else                               parks it as ARRIVING, and passes the task's baton, unless
 *                                      the task has had that
 */
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
	if (!next->thread.coroutine && READ_ONCE(next->thread.away) & OB_AWAY_WORKING) {
		ob_work_end(vcpu, next);
		return false;
	}
	if (!next->thread.coroutine && ob_switch_can_end(next)) {
		/* ob_work_begin() had no stack, and the task's thread does not want the task. */
		if (cmpxchg(&next->thread.away, OB_AWAY_OUT, 0) == OB_AWAY_OUT) {
			ob_work_note(vcpu, next);
			ob_switch_end(vcpu, next, ob_moved(next));
			return false;
		}
		/*
		 * The thread has got its baton before the eviction, and does not wait again. It
		 * comes by the vCPU's state, so a second pass would stay in its baton.
		 */
		if (ob_switch_end(vcpu, next, ob_arriving(next)) == OB_AWAY_ARRIVING)
			return false;
	}
	ob_baton_pass(baton);
	return false;
}

/*
 * The calling thread comes for its task. The task was evicted, or the baton was passed, or
 * (`switched`) this thread has made the switch itself. Afterwards the thread holds the task's vCPU.
 * Returns true if the run queue is still locked: the caller has to end the switch. If the task is
 * GONE (evict.c), the thread holds no vCPU, and the result is false. Blocks.
 */
bool ob_arrive(struct task_struct *task, bool switched)
{
	while (!switched) {
		struct ob_vcpu *vcpu = task->thread.vcpu;
		unsigned long state = ob_arriving(task);

		if (READ_ONCE(task->thread.away) & OB_AWAY_GONE)
			return false;
		if (READ_ONCE(task->thread.away)) {
			switched = ob_evicted_wake_and_wait(task);
			continue;
		}
		ob_delay_point();
		if (try_cmpxchg(&vcpu->state, &state, OB_VCPU_HELD) ||
		    (state == ob_moved(task) && try_cmpxchg(&vcpu->state, &state, OB_VCPU_HELD))) {
			ob_vcpu_check(vcpu, state, OB_VCPU_HELD);
			break;
		}
		ob_delay_point();
		/* The other thread could not end this switch: ob_switch_can_end(). */
		if (state == OB_VCPU_HELD && !READ_ONCE(task->thread.away) &&
		    !ob_switch_can_end(task))
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
	ob_away_check(task->thread.away, 0);
	WRITE_ONCE(task->thread.away, 0);
	return switched;
}

/*
 * ob_switch_end() has ended this switch already, and Linux will end it again: locks the run queue,
 * as for a switch from the idle task.
 */
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

/* Whether the calling thread may run that coroutine: a lent thread runs only short ones (L1). */
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

/* The task leaves its thread. The thread goes on with ob_give_up(), on its own stack. */
static void ob_switch_leave(struct ob_vcpu *vcpu, struct task_struct *prev,
			    struct task_struct *next)
{
	void **leave_to = prev->thread.argument;
	void *abandoned;

	if (READ_ONCE(prev->thread.away))
		leave_to = &vcpu->service.context;
	vcpu->carrier.pass_to = next;
	ob_coroutine_switch(&abandoned, *leave_to);
}

static void ob_switch_host_bound(struct ob_vcpu *vcpu, struct task_struct *prev,
				 struct task_struct *next)
{
	bool switched = false;

	ob_delay_point();
	if (READ_ONCE(prev->thread.away) || READ_ONCE(prev->__state) == TASK_DEAD)
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

	if (unlikely(READ_ONCE(next->thread.away) == OB_AWAY_OUT && !next->thread.stack))
		ob_work_begin(next);
	vcpu->switched_from = prev;
	if (unlikely(prev->thread.vectors_newer))
		ob_vectors_fetch(prev);
	prev->thread.frame = (unsigned long)__builtin_frame_address(0);
	next->thread.vcpu = vcpu;
	if (prev->thread.stack)
		ob_switch_coroutine(vcpu, prev, next);
	else
		ob_switch_host_bound(vcpu, prev, next);
	return ob_this_vcpu()->switched_from;
}
