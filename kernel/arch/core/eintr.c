// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls that end early: ob_interrupt() and ob_abort_call() of the library.
 *
 * The caller may be a signal handler of the program that has interrupted kernel code. So it takes
 * no vCPU: it notes the thread's number and raises an interrupt, and the interrupt marks the task.
 *
 * A task stays marked until one of its calls has failed with EINTR for that reason. Until then
 * TIF_NOTIFY_SIGNAL is set, and no interruptible sleep begins. So a call that is about to block is
 * not missed.
 *
 * ob_abort_call() also gives the task a SIGKILL, which ends killable sleeps. The task survives it:
 * ob_eintr_survives() takes the signal away when the task leaves the kernel. A halt that has killed
 * the same task kills it again until its thread is out.
 *
 *   thread.interrupted   set                         taken away
 *   OB_EINTR_MARKED      by the interrupt            by the call that fails with EINTR
 *   OB_EINTR_ABORTED     with SIGKILL, under its     with SIGKILL, under the same lock
 *                        siglock
 */
#include <linux/atomic.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <outboard/gate.h>
#include "adopt.h"
#include "delay.h"
#include "eintr.h"
#include "gate.h"
#include "machine.h"
#include "vcpu.h"

/* In the number of a thread: killable sleeps end, too. Linux's numbers are below 2^22. */
#define OB_EINTR_ABORT (1u << 31)

/* Numbers of threads whose calls the next interrupt ends; 0: a free place. */
static u32 ob_eintr_threads[64];

/* A task that is nearly dead has no lock, and makes no more calls. */
static void ob_eintr_kill(struct task_struct *task)
{
	unsigned long flags;

	if (!lock_task_sighand(task, &flags))
		return;
	atomic_or(OB_EINTR_ABORTED, ob_eintr_word(task));
	sigaddset(&task->pending.signal, SIGKILL);
	signal_wake_up(task, 1);
	unlock_task_sighand(task, &flags);
}

static void ob_eintr_one(u32 entry)
{
	struct task_struct *task;

	rcu_read_lock();
	task = find_task_by_pid_ns(entry & ~OB_EINTR_ABORT, &init_pid_ns);
	if (task && task->thread.client) {
		atomic_or(OB_EINTR_MARKED, ob_eintr_word(task));
		ob_delay_point();
		/* A process of its own can be killed by its server instead. */
		if (entry & OB_EINTR_ABORT && !ob_is_of_process(task))
			ob_eintr_kill(task);
		set_notify_signal(task);
	}
	rcu_read_unlock();
}

/* Takes away the SIGKILL of ob_abort_call(). Returns false if the calling task is to end. */
bool ob_eintr_survives(void)
{
	bool survives;

	spin_lock_irq(&current->sighand->siglock);
	survives = READ_ONCE(current->thread.interrupted) & OB_EINTR_ABORTED &&
		   !(current->signal->flags & SIGNAL_GROUP_EXIT);
	if (survives) {
		atomic_andnot(OB_EINTR_ABORTED, ob_eintr_word(current));
		sigdelset(&current->pending.signal, SIGKILL);
		recalc_sigpending();
	}
	spin_unlock_irq(&current->sighand->siglock);
	return survives;
}

/* In interrupt context. */
void ob_eintr_run(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ob_eintr_threads); i++) {
		u32 number = READ_ONCE(ob_eintr_threads[i]) ? xchg(&ob_eintr_threads[i], 0) : 0;

		if (number)
			ob_eintr_one(number);
	}
}

static bool ob_eintr_note(u32 number)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ob_eintr_threads); i++)
		if (!cmpxchg(&ob_eintr_threads[i], 0, number))
			return true;
	return false;
}

static int ob_interrupt_call(int thread, u32 how)
{
	struct task_struct *task = NULL;
	u32 number = thread;

	if (ob_thread_is_known())
		task = ob_this_thread->loan ? ob_this_thread->loan->task : current;
	if (!thread && task)
		number = task_pid_nr(task);
	if (thread < 0 || !number)
		return -ESRCH;
	if (!ob_eintr_note(number | how))
		return -EAGAIN;
	ob_delay_point();
	ob_raise(ob_vcpu_to_interrupt(), OB_PENDING_EINTR);
	return 0;
}

/* In transit: a halt would free the calling thread's task, and a boot make all data new. */
static int ob_interrupt_in_transit(int thread, u32 how)
{
	int error = ob_transit_begin();

	if (error)
		return error;
	ob_delay_point();
	error = ob_interrupt_call(thread, how);
	ob_transit_end();
	return error;
}

int ob_kernel_interrupt_call(int thread)
{
	return ob_interrupt_in_transit(thread, 0);
}

int ob_kernel_abort_call(int thread)
{
	return ob_interrupt_in_transit(thread, OB_EINTR_ABORT);
}
