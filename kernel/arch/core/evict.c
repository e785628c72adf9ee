// SPDX-License-Identifier: GPL-2.0-only
/* Evicted tasks: how they are put to sleep, come back, and end (V8). The protocol is in vcpu.h. */
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/task_work.h>
#include "baton.h"
#include "delay.h"
#include "vcpu.h"

/*
 * Puts an evicted task into the list of those that want to run again. Returns NULL if it is there
 * already; else the vCPU whose list it is, for the caller to raise OB_PENDING_WAKE there. The task may
 * be on another one by then. The list has a reference to it.
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
 * The task keeps its plug: flushing that here could enable interrupts before the task sleeps. Then the
 * task may be woken, and schedule() would return.
 */
static void ob_evict_main(void)
{
	if (current->plug) {
		current->thread.plug = current->plug;
		current->plug = NULL;
	}
	/* Under the lock that wakers hold: a late one must not take the state away. */
	set_special_state(TASK_PARKED);
	schedule();
	BUG();				/* __switch_to() does not come back here */
}

/*
 * The parked task sleeps until its thread calls again. The caller passes the vCPU on, with interrupts
 * still off.
 */
void ob_evict(struct ob_vcpu *vcpu, struct task_struct *task, enum ob_evicted why)
{
	struct ob_vcpu *asked = NULL;

	local_irq_disable();
	vcpu->service.check_at = 0;
	ob_delay_point();
	WRITE_ONCE(vcpu->bound_thread, ob_this_thread->self);
	WRITE_ONCE(task->thread.evicted, why);
	virt_mb();
	ob_delay_point();
	/* Interrupts are off until the task sleeps: this one wakes it. */
	if (why == OB_EVICTED_OUT && task_work_pending(task))
		asked = ob_wake_list_add(task);
	if (asked)
		__atomic_fetch_or(&asked->pending, OB_PENDING_WAKE, __ATOMIC_SEQ_CST);
	WRITE_ONCE(vcpu->state, OB_VCPU_HELD);
	ob_delay_point();
	ob_coroutine_switch(&vcpu->service.context,
			    ob_coroutine_prepare(vcpu->service.stack, ob_evict_main));
}

/* The task, which was evicted, asks to run again. Returns as ob_lend(). */
bool ob_evicted_wake_and_wait(struct task_struct *task)
{
	u32 seen = READ_ONCE(task->thread.evicted);
	struct ob_vcpu *asked = NULL;

	if (!seen || !try_cmpxchg(&task->thread.evicted, &seen, seen | OB_EVICTED_WANTED))
		return false;
	ob_delay_point();
	/* It sleeps. Else it does exit work, and its thread is called when that is done. */
	if (seen & (OB_EVICTED_OUT | OB_EVICTED_ARRIVING))
		asked = ob_wake_list_add(task);
	if (asked)
		return ob_raise_and_wait(asked, OB_PENDING_WAKE, &task->thread.baton);
	ob_baton_wait(&task->thread.baton);
	return false;
}

/* In the place of a host thread that makes no more calls. */
static void ob_end_evicted_main(void)
{
	ob_switch_finished();
	ob_task_begin();
	do_exit(0);
}

/* Has a vCPU not left the task yet? */
static bool ob_is_on_vcpu(struct task_struct *task)
{
#ifdef CONFIG_SMP
	return smp_load_acquire(&task->on_cpu);
#else
	return task == current;
#endif
}

/*
 * Ends an evicted task: it goes on as a coroutine, to its end. The machine is halting, so its thread does
 * not come back. Returns false if that is not possible at this moment. Blocks.
 */
bool ob_task_end_evicted(struct task_struct *task)
{
	bool sleeps;
	void *stack;

	/* Its eviction may not be over. */
	if (!wait_task_inactive(task, TASK_PARKED))
		return false;
	stack = ob_stack_alloc();
	if (!stack)
		return false;
	/* Others may be about to wake it for its exit work. */
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
