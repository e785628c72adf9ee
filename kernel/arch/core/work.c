// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exit work of tasks whose threads are out in host code (V9).
 *
 * Linux does a task's work on its way out of the kernel, and interrupts a task in user mode for it.
 * A client's thread may stay out for long, and may poll memory for the effect of the work, as for
 * the completions of an io_uring. So the task does the work without its thread, as a coroutine:
 *
 *   the task          what happens
 *   parked            its service thread, or a client's thread that wants the vCPU, finds the work
 *                     after interrupts, and evicts the task
 *   evicted, asleep   task_work_add() wakes it by the wake list
 *   switched to       its thread did not ask for it: it gets a stack (ob_work_begin())
 *   has no work left  loses the stack; the vCPU is parked on it again (ob_work_end())
 *
 * A thread that enters meanwhile waits until the work is done. Signals wait for the thread, on
 * which their handlers run. But a signal that ends or stops a process of its own (process.c) acts
 * at once.
 */
#include <linux/resume_user_mode.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/task_work.h>
#include "adopt.h"
#include "baton.h"
#include "check.h"
#include "coroutine.h"
#include "default_signal.h"
#include "delay.h"
#include "eintr.h"
#include "evict.h"
#include "switch.h"
#include "vcpu.h"
#include "work.h"

/* The calling task leaves its stack. Its carrier goes on with ob_work_end(). */
static void __noreturn ob_work_leave(void)
{
	struct ob_carrier *carrier;
	void *abandoned;

	ob_this_thread->irqs_off = 1;
	barrier();
	carrier = &ob_this_vcpu()->carrier;
	carrier->dead_stack = current->thread.stack;
	carrier->pass_to = current;
	current->thread.stack = NULL;
	current->thread.coroutine = NULL;
	ob_coroutine_switch(&abandoned, carrier->context);
	unreachable();
}

/* task_work_add() sends no interrupt if the flag is set already, so look again. */
static bool ob_work_is_left(void)
{
	return ob_work_pends(current) || test_thread_flag(TIF_NOTIFY_RESUME) ||
	       (test_thread_flag(TIF_NOTIFY_SIGNAL) && !ob_eintr_is_marked(current));
}

static void ob_work_main(void)
{
	ob_switch_finished();
	ob_switch_tail();
	do {
		clear_thread_flag(TIF_NOTIFY_SIGNAL);
		resume_user_mode_work(current_pt_regs());
		task_work_run();
		ob_default_signals_take();
		/* For the next call: eintr.c. */
		if (ob_eintr_is_marked(current))
			set_thread_flag(TIF_NOTIFY_SIGNAL);
		if (need_resched())
			schedule();
	} while (ob_work_is_left());
	ob_work_leave();
}

/*
 * Linux is about to switch to the task, and its thread does not want it: makes the task a
 * coroutine. If there is no stack, the next interrupt tries again, or the thread does it.
 */
void ob_work_begin(struct task_struct *task)
{
	void *stack = ob_stack_alloc();

	if (!stack)
		return;
	if (cmpxchg(&task->thread.away, OB_AWAY_OUT, OB_AWAY_WORKING) != OB_AWAY_OUT) {
		ob_stack_free(stack);
		return;
	}
	task->thread.stack = stack;
	task->thread.coroutine = ob_coroutine_prepare(stack, ob_work_main);
}

/*
 * Work that came after the task's last look at its flags sent no interrupt: this vCPU was not
 * parked yet. Before the vCPU is parked on the task, whose thread is out.
 */
void ob_work_note(struct ob_vcpu *vcpu, struct task_struct *task)
{
	if (ob_work_pends(task))
		__atomic_fetch_or(&vcpu->pending, OB_PENDING_EXIT, __ATOMIC_SEQ_CST);
}

/* The task has left its stack. Parks the vCPU on it; calls its thread if that waits. */
void ob_work_end(struct ob_vcpu *vcpu, struct task_struct *task)
{
	u32 working = OB_AWAY_WORKING;
	unsigned long state;
	bool out;

	/* This thread is unbound, but the word must name it until the vCPU is parked. */
	WRITE_ONCE(vcpu->bound_thread, ob_this_thread->self);
	out = try_cmpxchg(&task->thread.away, &working, 0);
	ob_delay_point();
	ob_away_check(out ? OB_AWAY_WORKING : task->thread.away, 0);
	if (out)
		ob_work_note(vcpu, task);
	else
		WRITE_ONCE(task->thread.away, 0);
	state = out ? ob_moved(task) : ob_arriving(task);
	ob_vcpu_check(vcpu, OB_VCPU_HELD, state);
	xchg(&vcpu->state, state);
	ob_delay_point();
	if (READ_ONCE(vcpu->pending))
		ob_kick(vcpu);
	if (!out)
		ob_baton_pass(&task->thread.baton);
}

int __real_task_work_add(struct task_struct *task, struct callback_head *work,
			 enum task_work_notify_mode notify);
int __wrap_task_work_add(struct task_struct *task, struct callback_head *work,
			 enum task_work_notify_mode notify);

/*
 * Adding work is a full barrier; another one follows the mark of an eviction. One sees the other.
 *
 * Linux interrupts the task's vCPU only if TIF_NOTIFY_SIGNAL was clear. A task whose calls are to
 * end early keeps that flag while its thread is out (eintr.c).
 *
 * Dodge task_work_add: a task that is evicted wakes for its work, and one whose calls are to end
 * early gets its interrupt.
 */
int __wrap_task_work_add(struct task_struct *task, struct callback_head *work,
			 enum task_work_notify_mode notify)
{
	int error = __real_task_work_add(task, work, notify);
	struct ob_vcpu *asked = NULL;

	if (!error && notify != TWA_NONE && READ_ONCE(task->thread.away) == OB_AWAY_OUT)
		asked = ob_wake_list_add(task);
	if (asked)
		ob_send(asked, OB_PENDING_WAKE);
	else if (!error && notify == TWA_SIGNAL && ob_eintr_is_marked(task))
		kick_process(task);
	return error;
}

int __real_wake_up_state(struct task_struct *task, unsigned int state);
int __wrap_wake_up_state(struct task_struct *task, unsigned int state);

/*
 * Linux's way to tell a task of a signal. The barriers are as for task_work_add().
 *
 * Dodge wake_up_state: a task of a process of its own that is evicted wakes for a signal, which may
 * end it.
 */
int __wrap_wake_up_state(struct task_struct *task, unsigned int state)
{
	int woken = __real_wake_up_state(task, state);
	struct ob_vcpu *asked = NULL;

	if (!woken && state & TASK_INTERRUPTIBLE && ob_is_of_process(task) &&
	    READ_ONCE(task->thread.away) == OB_AWAY_OUT)
		asked = ob_wake_list_add(task);
	if (asked)
		ob_send(asked, OB_PENDING_WAKE);
	return woken;
}
