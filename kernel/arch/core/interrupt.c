// SPDX-License-Identifier: GPL-2.0-only
/*
 * Takes interrupts: the bits of a vCPU's pending word. One of these bits stands for all interrupts
 * of devices: irq.c.
 */
#include <linux/export.h>
#include <linux/hardirq.h>
#include <linux/irq_work.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <asm/irq_regs.h>
#include "adopt.h"
#include "carrier.h"
#include "delay.h"
#include "eintr.h"
#include "evict.h"
#include "interrupt.h"
#include "irq.h"
#include "machine.h"
#include "panic.h"
#include "smp.h"
#include "time.h"
#include "vcpu.h"

/*
 * Is another vCPU about to put the task to sleep? A wake-up now would be lost. That vCPU has
 * interrupts off until the task sleeps, so that vCPU must wake the task. An eviction that begins
 * after this look had no use for the caller's entry: ob_evict_main().
 */
static bool ob_is_being_evicted(struct task_struct *task)
{
	return READ_ONCE(task->thread.away) & (OB_AWAY_OUT | OB_AWAY_ARRIVING) &&
	       task_cpu(task) != smp_processor_id() && task_curr(task);
}

/* Has the task's vCPU wake it. */
static void ob_wake_elsewhere(struct task_struct *task)
{
	struct ob_vcpu *vcpu = ob_wake_list_add(task);

	if (vcpu)
		ob_send(vcpu, OB_PENDING_WAKE);
}

static void ob_wake_evicted(struct ob_vcpu *vcpu)
{
	struct task_struct *task = xchg(&vcpu->wake_list, NULL), *next;

	for (; task; task = next) {
		next = task->thread.wake_next;
		xchg(&task->thread.on_wake_list, 0);
		ob_delay_point();
		if (ob_is_being_evicted(task)) {
			ob_wake_elsewhere(task);
		} else {
			ob_delay_point();
			wake_up_state(task, TASK_PARKED);
		}
		put_task_struct(task);
	}
}

static void ob_interrupt_dispatch(struct ob_vcpu *vcpu, u32 bits)
{
	if (bits & OB_PENDING_TIMER && vcpu->clock.event_handler) {
		vcpu->clock.event_handler(&vcpu->clock);
		ob_wall_clock_watch();
	}
	if (bits & OB_PENDING_RESCHEDULE)
		scheduler_ipi();
	if (IS_ENABLED(CONFIG_SMP) && bits & OB_PENDING_CALL)
		ob_calls_run();
	if (bits & OB_PENDING_IRQ_WORK)
		irq_work_run();
	if (bits & OB_PENDING_WAKE)
		ob_wake_evicted(vcpu);
	if (bits & OB_PENDING_ADOPT) {
		ob_claim_release();
		ob_adoptions_wake();
	}
	if (bits & OB_PENDING_DEVICE)
		ob_devices_run(vcpu);
	if (bits & OB_PENDING_EINTR)
		ob_eintr_run();
}

/*
 * Takes the pending interrupts of this vCPU. `user`: in the place of a parked task. Interrupts are
 * on at entry, except in ob_kernel_preempt(), and on at return. The task stays on its vCPU. When
 * the machine has stopped, a carrier's thread does not return from here.
 */
void ob_interrupts_run(bool user)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();
	struct pt_regs regs = {
		.ip = (unsigned long)__builtin_return_address(0),
		.bp = (unsigned long)__builtin_frame_address(0),
		.user = user,
	};
	u32 bits;

	while ((bits = READ_ONCE(vcpu->pending))) {
		struct pt_regs *old;

		ob_panic_check();
		if (unlikely(READ_ONCE(ob_machine.stopping))) {
			if (ob_is_on_coroutine())
				ob_carrier_leave();
			return;
		}
		bits = xchg(&vcpu->pending, 0);
		WRITE_ONCE(vcpu->polls, vcpu->polls + 1);
		if (bits & OB_PENDING_WAKE_HOST)
			ob_wake_deferred();
		if (!(bits & ~(OB_PENDING_WAKE_HOST | OB_PENDING_EXIT)))
			continue;
		ob_this_thread->irqs_off = 1;
		trace_hardirqs_off();
		old = set_irq_regs(&regs);
		irq_enter();
		ob_interrupt_dispatch(vcpu, bits);
		irq_exit();
		set_irq_regs(old);
		trace_hardirqs_on();
		ob_this_thread->irqs_off = 0;
	}
}

void ob_interrupts_poll(void)
{
	ob_interrupts_run(false);
}
EXPORT_SYMBOL(ob_interrupts_poll);

/*
 * The signal of V6, on the thread that held a vCPU too long without polling. The signal may come
 * late, when the thread is out in host code or has interrupts off.
 */
int ob_kernel_preempt_begin(void)
{
	struct ob_thread __ob_tls *thread = ob_this_thread;

	if (!ob_thread_is_known() || !thread->task || thread->irqs_off || thread->loan ||
	    !READ_ONCE(thread->vcpu->pending))
		return 0;
	if (thread->kind == OB_THREAD_CLIENT && !ob_client_is_in())
		return 0;
	thread->irqs_off = 1;
	return 1;
}

/*
 * A client's thread on its way out may have read its task's flags for the last time. After that, it
 * reads only the pending word (V4).
 */
static void ob_exit_work_note(void)
{
	if (!current->thread.stack && read_thread_flags() & OB_TIF_EXIT_WORK)
		__atomic_fetch_or(&ob_this_vcpu()->pending, OB_PENDING_EXIT, __ATOMIC_SEQ_CST);
}

void ob_kernel_preempt(void)
{
	if (ob_pending()) {
		ob_interrupts_run(false);
		ob_exit_work_note();
	}
	/* If no bit was pending, interrupts are still off. */
	ob_this_thread->irqs_off = 0;
}

void arch_irq_work_raise(void)
{
	ob_raise(ob_this_vcpu(), OB_PENDING_IRQ_WORK);
}
