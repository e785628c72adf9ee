// SPDX-License-Identifier: GPL-2.0-only
/*
 * Evicted tasks: how they are put to sleep, how they come back, and how they end (V8).
 *
 * A task is evicted while a vCPU is parked on it (parked.c). It then sleeps in the state
 * TASK_PARKED, which no signal ends. The thread that evicts it runs schedule() as the task, on a
 * stack of the service thread's. The task's own thread is out in host code, or on its way in.
 *
 * The word `away` says why the task's thread cannot go on when it enters. Its bits are those of
 * enum ob_away. 0: the task runs, sleeps in a call, or a vCPU is parked on it.
 *
 *   away               to                  by
 *   0                  OUT                 ob_evict(): the task's thread is out in host code
 *   0                  ARRIVING            ob_evict(): the thread got its baton and did not come
 *   OUT, ARRIVING      the same | WANTED   ob_evicted_wake_and_wait(): the thread enters
 *   OUT                WORKING             ob_work_begin(): Linux switches to it for exit work
 *   OUT                0                   ob_pass_to(): the same, but no stack is free; vCPU MOVED
 *   ARRIVING           0                   ob_switch_end(): Linux switches to it; vCPU ARRIVING.
 *                                          The thread has got its baton before the eviction
 *   either | WANTED    0                   the same, and the thread gets its baton
 *   WORKING            WORKING | WANTED    ob_evicted_wake_and_wait(): the thread enters
 *   WORKING            0                   ob_work_end(): the work is done; vCPU MOVED
 *   WORKING | WANTED   0                   the same, and the thread gets its baton; vCPU ARRIVING
 *   WORKING            GONE                ob_claim_void(): a signal has ended the task
 *   WORKING | WANTED   GONE                the same, and the thread gets its baton
 *
 * A thread that has switched to its own task while it was lent (ob_lend()) holds the vCPU already:
 * ob_arrive() clears the word.
 *
 * A thread that wants its task to run, or adds exit work for the task, puts the task on the wake
 * list of the vCPU where it ran last, and raises OB_PENDING_WAKE there. If another vCPU is putting
 * the task to sleep by then, the entry moves to the list of that vCPU: interrupt.c.
 *
 * Halt ends a task that is OUT as a coroutine, in the place of its thread: ob_task_end_evicted().
 * The word stays OUT then, and thread.stack is set: so __switch_to() begins no exit work.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include "baton.h"
#include "check.h"
#include "coroutine.h"
#include "default_signal.h"
#include "delay.h"
#include "evict.h"
#include "idle.h"
#include "switch.h"
#include "vcpu.h"

/*
 * Puts an evicted task on a wake list. Returns the vCPU whose list it is, for the caller to raise
 * OB_PENDING_WAKE there; NULL if the task is on a list already. The task may be on another vCPU by
 * then. The list has a reference to the task.
 */
struct ob_vcpu *ob_wake_list_add(struct task_struct *task)
{
	struct ob_vcpu *vcpu = &ob_vcpus[task_cpu(task)];

	if (xchg(&task->thread.on_wake_list, 1))
		return NULL;
	get_task_struct(task);
	task->thread.wake_next = READ_ONCE(vcpu->wake_list);
	while (!try_cmpxchg(&vcpu->wake_list, &task->thread.wake_next, task))
		;
	ob_delay_point();
	return vcpu;
}

/*
 * Has the task woken, which is current and about to sleep. Interrupts are off until it sleeps, so
 * its vCPU takes this one after that.
 */
static void ob_wake_once_asleep(struct task_struct *task)
{
	struct ob_vcpu *asked = ob_wake_list_add(task);

	if (asked)
		__atomic_fetch_or(&asked->pending, OB_PENDING_WAKE, __ATOMIC_SEQ_CST);
}

/*
 * The task sleeps without its plug of block requests: flushing the plug could enable interrupts
 * before the task sleeps. Then an interrupt could take the task's wake-up too early.
 *
 * If the task sleeps, __switch_to() never comes back here. But another vCPU may wake the task
 * between set_special_state() and schedule(), for an entry of its wake list that is older than this
 * eviction (ob_wake_evicted()). Then Linux may choose the same task again, and schedule() returns,
 * with interrupts on. An interrupt in there finds the task awake, and drops a wake-up. So the task
 * sleeps again, and is woken once after that.
 */
static void ob_evict_main(void)
{
	if (current->plug) {
		current->thread.plug = current->plug;
		current->plug = NULL;
	}
	for (;;) {
		/* Under the lock that wakers hold: no waker of another state undoes this one. */
		set_special_state(TASK_PARKED);
		ob_delay_point();
		schedule();
		local_irq_disable();
		ob_wake_once_asleep(current);
	}
}

/*
 * Puts the parked task to sleep until its thread calls again or exit work is added. Returns with
 * interrupts off, and the caller passes the vCPU on.
 */
void ob_evict(struct ob_vcpu *vcpu, struct task_struct *task, enum ob_away why)
{
	/* A lent thread has them off already, and the lock validator does not know. */
	raw_local_irq_disable();
	trace_hardirqs_off();
	vcpu->service.check_at = 0;
	ob_delay_point();
	WRITE_ONCE(vcpu->bound_thread, ob_this_thread->self);
	ob_away_check(task->thread.away, why);
	WRITE_ONCE(task->thread.away, why);
	virt_mb();
	ob_delay_point();
	if (why == OB_AWAY_OUT && ob_work_pends(task))
		ob_wake_once_asleep(task);
	WRITE_ONCE(vcpu->state, OB_VCPU_HELD);
	ob_vcpu_check(vcpu, OB_VCPU_INTERRUPT, OB_VCPU_HELD);
	ob_delay_point();
	ob_coroutine_switch(&vcpu->service.context,
			    ob_coroutine_prepare(vcpu->service.stack, ob_evict_main));
}

/* By the thread of an evicted task: has the task woken, and waits for it. Returns as ob_lend(). */
bool ob_evicted_wake_and_wait(struct task_struct *task)
{
	u32 seen = READ_ONCE(task->thread.away);
	struct ob_vcpu *asked = NULL;

	if (!seen || seen & OB_AWAY_GONE ||
	    !try_cmpxchg(&task->thread.away, &seen, seen | OB_AWAY_WANTED))
		return false;
	ob_away_check(seen, seen | OB_AWAY_WANTED);
	ob_delay_point();
	/* A task that does exit work is awake: ob_work_end() passes the baton. */
	if (seen & (OB_AWAY_OUT | OB_AWAY_ARRIVING))
		asked = ob_wake_list_add(task);
	if (asked)
		return ob_raise_and_wait(asked, OB_PENDING_WAKE, &task->thread.baton);
	ob_baton_wait(&task->thread.baton);
	return false;
}

/* Ends the current task, whose host thread makes no more calls. */
static void ob_end_evicted_main(void)
{
	ob_switch_finished();
	ob_switch_tail();
	do_exit(0);
}

/* Whether some vCPU has not switched away from the task yet. */
static bool ob_is_on_vcpu(struct task_struct *task)
{
#ifdef CONFIG_SMP
	return smp_load_acquire(&task->on_cpu);
#else
	return task == current;
#endif
}

/*
 * Ends an evicted task, as a coroutine. The machine is halting, so the task's thread does not come
 * back. Returns false if the task cannot be ended yet. Blocks.
 */
bool ob_task_end_evicted(struct task_struct *task)
{
	bool sleeps;
	void *stack;

	/* The eviction may not be over. */
	if (!wait_task_inactive(task, TASK_PARKED))
		return false;
	stack = ob_stack_alloc();
	if (!stack)
		return false;
	/* Another thread may be about to wake the task for its exit work. */
	raw_spin_lock_irq(&task->pi_lock);
	sleeps = READ_ONCE(task->__state) == TASK_PARKED && !task->on_rq && !ob_is_on_vcpu(task);
	if (sleeps) {
		task->thread.stack = stack;
		task->thread.coroutine = ob_coroutine_prepare(stack, ob_end_evicted_main);
	}
	raw_spin_unlock_irq(&task->pi_lock);
	if (sleeps)
		wake_up_state(task, TASK_PARKED);
	else
		ob_stack_free(stack);
	return sleeps;
}
