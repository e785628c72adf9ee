// SPDX-License-Identifier: GPL-2.0-only
/*
 * Idling, and the threads that lend themselves meanwhile. The protocol is in vcpu.h.
 *
 * The thread that runs a vCPU's coroutines carries it. That is the vCPU's carrier; but waking
 * it costs more than most of what is to do. So a client's thread whose task has to wait carries the vCPU itself
 * while there is nothing but idling, and so does one whose task is not there yet or no more, and the one
 * that starts from a snapshot. It is lent:
 *
 *   L1  its own task may be switched to on another vCPU meanwhile, which then waits for this thread.
 *       So what a lent thread carries is short.
 *   L2  it waits on its own stack: the program's signal handlers run there.
 *   L3  it takes no signal of ours (V6): the handler could end on another thread, with the program's signal mask.
 *   L4  while it watches an idle vCPU it may be stopped, or in a signal handler of the program. If it
 *       does not come when there is something to do, the carrier does (ob_kicked_take()).
 */
#include <linux/cpu.h>
#include <linux/sched.h>
#include "baton.h"
#include "delay.h"
#include "vcpu.h"

/*
 * How long a lent thread may take to come to an idle vCPU that has something to do, when it was not
 * asleep to be woken. Then the carrier comes.
 */
#define OB_KICK_OLD NSEC_PER_MSEC

/* Ends the idling of a vCPU, unless somebody else does. Returns the word to wake a thread on, NULL if none sleeps. */
u32 *ob_idle_end(struct ob_vcpu *vcpu)
{
	u32 *baton = xchg(&vcpu->watcher_baton, NULL);

	if (!baton)
		return NULL;
	if (baton == &vcpu->carrier.baton)
		return ob_baton_set(baton, OB_BATON_PASSED);
	WRITE_ONCE(vcpu->kicks, vcpu->kicks + 1);
	/* Until it is known: what was seen in vain costs a notification. */
	WRITE_ONCE(vcpu->kicked_while_awake, true);
	WRITE_ONCE(vcpu->kicked_baton, baton);
	baton = ob_baton_set(baton, OB_BATON_KICKED);
	if (baton)
		WRITE_ONCE(vcpu->kicked_while_awake, false);
	return baton;
}

/*
 * As ob_baton_await(), by a thread that may watch the idle vCPU. While it does, it is the vCPU's
 * timer as well: the service thread would have to be woken to wake it.
 */
void ob_idle_await(struct ob_vcpu *vcpu, u32 *baton, u32 bits)
{
	u64 deadline, now;
	u32 seen;

	if (READ_ONCE(*baton) & bits)
		return;
	ob_spin_for_bits(baton, bits);
	while (!((seen = READ_ONCE(*baton)) & bits)) {
		deadline = READ_ONCE(vcpu->watcher_baton) == baton ? READ_ONCE(vcpu->service.deadline) : 0;
		now = deadline ? ob_host_clock_monotonic(ob_host) : 0;
		if (!deadline) {
			ob_baton_doze(baton, seen, OB_FOREVER);
		} else if (now < deadline) {
			ob_baton_doze(baton, seen, deadline - now);
		} else {
			/* Nobody sleeps on the baton: raising wakes nobody in vain. */
			__atomic_fetch_and(baton, ~OB_BATON_AWAITED, __ATOMIC_SEQ_CST);
			ob_timer_expire(vcpu, now);
		}
	}
}

/*
 * The vCPU idles, and is the calling thread's no more: whose baton it is looks after it. It may be the calling
 * thread's, which is told at once if there is something to do already.
 */
void ob_idle_begin(struct ob_vcpu *vcpu, u32 *baton)
{
	vcpu->carrier.to_run = idle_task(vcpu->id);
	ob_delay_point();
	xchg(&vcpu->watcher_baton, baton);
	ob_delay_point();
	if (READ_ONCE(vcpu->pending))
		ob_wake(ob_idle_end(vcpu));
}

/*
 * A kicked vCPU goes to its lent thread, or to the carrier when that thread has not come for long.
 * Returns whether the caller was the first to take it.
 */
static bool ob_kicked_take(struct ob_vcpu *vcpu, u32 *baton)
{
	return cmpxchg(&vcpu->kicked_baton, baton, NULL) == baton;
}

/*
 * The calling thread, which is lent, looks after the vCPU while that idles. Returns true if the thread shall carry it
 * on; false if the thread has been called back: the carrier looks after the vCPU. Blocks.
 */
static bool ob_idle_watch(struct ob_vcpu *vcpu, u32 *baton)
{
	if (READ_ONCE(ob_machine.stopping))
		return false;
	ob_service_needed(vcpu);
	ob_idle_begin(vcpu, baton);
	ob_idle_await(vcpu, baton, OB_BATON_PASSED | OB_BATON_KICKED);
	ob_delay_point();
	if (cmpxchg(&vcpu->watcher_baton, baton, &vcpu->carrier.baton) == baton)
		return false;
	/* Whoever took it from there sets the bit. */
	ob_baton_take(baton, OB_BATON_KICKED);
	if (!ob_kicked_take(vcpu, baton))
		return false;
	if (!(READ_ONCE(*baton) & OB_BATON_PASSED))
		return true;
	ob_baton_pass(&vcpu->carrier.baton);
	return false;
}

/* Takes a vCPU that idles from its carrier. The calling thread has to carry it on. */
bool ob_idle_take(struct ob_vcpu *vcpu)
{
	u32 *baton = &vcpu->carrier.baton;

	return READ_ONCE(vcpu->watcher_baton) == baton && cmpxchg(&vcpu->watcher_baton, baton, NULL) == baton;
}

/* Has the carrier come where a lent thread does not (L4). Returns when to look again, OB_FOREVER if none is awaited. */
u64 ob_watch_kicked(struct ob_vcpu *vcpu, u64 now)
{
	struct ob_service *service = &vcpu->service;
	u32 kicks = READ_ONCE(vcpu->kicks), *baton = READ_ONCE(vcpu->kicked_baton);

	if (!baton) {
		service->kicked_since = 0;
		return OB_FOREVER;
	}
	if (!service->kicked_since || service->kicks_seen != kicks) {
		service->kicks_seen = kicks;
		service->kicked_since = now;
	}
	if (now - service->kicked_since < OB_KICK_OLD)
		return service->kicked_since + OB_KICK_OLD;
	service->kicked_since = 0;
	if (ob_kicked_take(vcpu, baton))
		ob_baton_pass(&vcpu->carrier.baton);
	return OB_FOREVER;
}

/*
 * The calling client's thread, whose task is not its turn, holds a vCPU that is to idle: it carries it until the baton
 * is passed, or there is more to do than that. When this returns, its task was switched to. Returns true if the
 * calling thread has done it, and holds the vCPU; false if the baton was passed. Blocks.
 */
bool ob_lend(struct ob_vcpu *vcpu, u32 *baton)
{
	struct task_struct *next;

	do {
		next = ob_carry(vcpu, idle_task(vcpu->id), true);
		if (next && ob_pass_to(vcpu, next, baton))
			return true;
	} while (!next && ob_idle_watch(vcpu, baton));
	ob_baton_wait(baton);
	return false;
}

/* The calling thread, which has no task, gives the vCPU to that of `next`. NULL: the vCPU idles. */
void ob_pass_or_idle(struct ob_vcpu *vcpu, struct task_struct *next)
{
	ob_unbind();
	if (next)
		ob_pass_to(vcpu, next, NULL);
	else
		ob_idle_begin(vcpu, &vcpu->carrier.baton);
}

/* The calling thread's task has left it, and the vCPU is to go to `pass_to`. */
void ob_give_up(struct ob_vcpu *vcpu)
{
	struct task_struct *next = vcpu->carrier.pass_to;

	if (is_idle_task(next) && ob_this_thread->kind == OB_THREAD_CLIENT)
		next = ob_carry(vcpu, next, true);
	ob_pass_or_idle(vcpu, next);
}

/*
 * As ob_give_up(), by the thread of another task, whose baton that is: it has evicted the vCPU's. Returns
 * as ob_lend(). Blocks.
 */
bool ob_give_up_and_wait(struct ob_vcpu *vcpu, u32 *baton)
{
	struct task_struct *next = vcpu->carrier.pass_to;

	if (is_idle_task(next))
		return ob_lend(vcpu, baton);
	if (ob_pass_to(vcpu, next, baton))
		return true;
	ob_baton_wait(baton);
	return false;
}

/* The calling thread, which is no task, carries the vCPU, which nobody else does, while there is nothing but idling. */
void ob_carry_without_task(struct ob_vcpu *vcpu)
{
	ob_this_thread->irqs_off = 1;
	ob_this_thread->self = ob_host_thread_self(ob_host);
	vcpu->carrier.pass_to = idle_task(vcpu->id);
	ob_give_up(vcpu);
	ob_this_thread->irqs_off = 0;
}

/*
 * As ob_raise(), by a thread whose task's turn comes through it, and that waits for its turn. It takes the
 * interrupt itself if the vCPU idles and is its carrier's to look after, or is parked on the task of a
 * client that is out in host code. Returns as ob_lend(). Blocks.
 */
bool ob_raise_and_wait(struct ob_vcpu *vcpu, u32 bits, u32 *baton)
{
	__atomic_fetch_or(&vcpu->pending, bits, __ATOMIC_SEQ_CST);
	ob_delay_point();
	if (ob_idle_take(vcpu))
		return ob_lend(vcpu, baton);
	ob_service_needed(vcpu);
	if (ob_evict_by_client(vcpu))
		return ob_give_up_and_wait(vcpu, baton);
	if (READ_ONCE(vcpu->pending))
		ob_kick(vcpu);
	ob_baton_wait(baton);
	return false;
}

/* The thread leaves the idle coroutine, which rests until something is pending and somebody carries it on. */
void arch_cpu_idle(void)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();

	if (!READ_ONCE(vcpu->pending)) {
		vcpu->carrier.pass_to = NULL;
		ob_coroutine_switch(&current->thread.coroutine, vcpu->carrier.context);
	}
	raw_local_irq_enable();
	raw_local_irq_disable();
}
