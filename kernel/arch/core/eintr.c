// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls that end early: ob_interrupt() of the library.
 *
 * The caller may be a signal handler of the program that has interrupted kernel code. So it takes
 * no vCPU: it notes the thread's number and raises an interrupt, and the interrupt marks the task.
 *
 * A task stays marked until one of its calls has failed with EINTR for that reason. Until then
 * TIF_NOTIFY_SIGNAL is set, and no interruptible sleep begins. So a call that is about to block is
 * not missed.
 */
#include <linux/atomic.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <outboard/gate.h>
#include "delay.h"
#include "eintr.h"
#include "gate.h"
#include "machine.h"
#include "vcpu.h"

/* Numbers of threads whose calls the next interrupt ends; 0: a free place. */
static u32 ob_eintr_threads[64];

static void ob_eintr_one(u32 number)
{
	struct task_struct *task;

	rcu_read_lock();
	task = find_task_by_pid_ns(number, &init_pid_ns);
	if (task && task != ob_machine.leader && same_thread_group(task, ob_machine.leader)) {
		WRITE_ONCE(task->thread.interrupted, 1);
		ob_delay_point();
		set_notify_signal(task);
	}
	rcu_read_unlock();
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

static int ob_interrupt_call(int thread)
{
	struct task_struct *task = NULL;
	u32 number = thread;

	if (ob_thread_is_known())
		task = ob_this_thread->loan ? ob_this_thread->loan->task : current;
	if (!thread && task)
		number = task_pid_nr(task);
	if (thread < 0 || !number)
		return -ESRCH;
	if (!ob_eintr_note(number))
		return -EAGAIN;
	ob_delay_point();
	ob_raise(ob_vcpu_to_interrupt(), OB_PENDING_EINTR);
	return 0;
}

/* In transit: a halt would free the calling thread's task, and a boot make all data new. */
int ob_kernel_interrupt_call(int thread)
{
	int error = ob_transit_begin();

	if (error)
		return error;
	ob_delay_point();
	error = ob_interrupt_call(thread);
	ob_transit_end();
	return error;
}
