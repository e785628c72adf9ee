// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parked vCPUs: interrupts in the place of the parked task, and whether it has to be evicted.
 *
 * For a parked vCPU the service thread runs interrupts in the place of the parked task, as an
 * interrupt in user mode would. If the task then stands in the way of another,
 * or has not called for a whole tick, it is evicted (V8): put to sleep, on a stack of
 * the service thread's, in a state that only its own thread's next call wakes. So the
 * vCPU can go idle, and stop its tick, while its client computes.
 *
 * A task that is parked needs no vCPU, but to the scheduler it is one that computes: another that is woken waits
 * until it has had its share, which is for ticks. So while others wait, the service thread looks again soon, and again
 * less and less soon as long as the client is in and out all the time: that one would wait as long itself.
 *
 * A client's thread whose task sleeps does all this for the parked vCPU itself, if the parked task's
 * thread stays out: ob_evict_by_client(). To wake the service thread, and be woken by it, takes far longer.
 */
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/task_work.h>
#include "delay.h"
#include "runqueue.h"
#include "vcpu.h"

/* How soon the service thread looks again at a parked task that others wait for: at first, and at last. In nanoseconds. */
#define OB_CHECK_FIRST (50 * NSEC_PER_USEC)
#define OB_CHECK_LAST (NSEC_PER_SEC / HZ)

/* A client that has called less often since the last look is out for longer than it is in. */
#define OB_LEAVES_BUSY 16

/* In nanoseconds. A client that wants in lets the thread of a parked task have this time to call. */
#define OB_EVICTION_TAKES (3 * NSEC_PER_USEC)

/* Sets the time of the next look, which is later each time. */
static void ob_check_postpone(struct ob_vcpu *vcpu, u64 now)
{
	struct ob_service *service = &vcpu->service;

	service->check_pause *= 2;
	service->check_at = service->check_pause < OB_CHECK_LAST ? now + service->check_pause : 0;
	service->leaves_at_check = vcpu->leaves;
}

static void ob_check_begin(struct ob_vcpu *vcpu, u64 now)
{
	vcpu->service.check_pause = OB_CHECK_FIRST / 2;
	ob_check_postpone(vcpu, now);
}

/* Others wait for the vCPU, whose task is parked and hardly makes use of it. On the vCPU. */
static bool ob_parked_task_overstays(struct ob_vcpu *vcpu)
{
	struct ob_service *service = &vcpu->service;
	u64 now;

	if (!ob_others_wait()) {
		service->check_at = 0;
		return false;
	}
	now = ob_host_clock_monotonic(ob_host);
	if (!service->check_at)
		ob_check_begin(vcpu, now);
	else if (now >= service->check_at)
		return vcpu->leaves - service->leaves_at_check < OB_LEAVES_BUSY;
	return false;
}

/*
 * Others wait for the vCPU, and nobody may have told the service thread: its client leaves it, or a
 * new task was put there. Any thread.
 */
void ob_check_request(struct ob_vcpu *vcpu)
{
	struct ob_service *service = &vcpu->service;

	if (READ_ONCE(service->check_at) || READ_ONCE(service->check_wanted))
		return;
	WRITE_ONCE(service->check_wanted, 1);
	ob_service_notify(vcpu);
}

static bool ob_must_evict(struct ob_vcpu *vcpu, u32 bits, bool arriving)
{
	bool idle_for_a_tick = bits & OB_PENDING_TIMER &&
			       vcpu->leaves == vcpu->service.leaves_at_tick;

	if (bits & OB_PENDING_TIMER)
		vcpu->service.leaves_at_tick = vcpu->leaves;
	/* Its thread is on its way, if nothing holds it up. */
	if (arriving)
		return idle_for_a_tick;
	/* Exit work is not its thread's, which may poll memory for what that does (V9). */
	if (task_work_pending(current))
		return true;
	return need_resched() || idle_for_a_tick || bits & OB_PENDING_EVICT || ob_parked_task_overstays(vcpu);
}

/*
 * Runs the interrupts of a vCPU whose state was `state`, PARKED, in the place of its task. Returns true
 * if the task was evicted: the caller holds the vCPU, with interrupts off, and passes it on. Does
 * nothing if the task's thread has entered meanwhile.
 *
 * The caller is the service thread, or a client's thread that is lent. The latter comes for the vCPU.
 */
static bool ob_parked_interrupt(struct ob_vcpu *vcpu, unsigned long state)
{
	bool lent = ob_this_thread->kind == OB_THREAD_CLIENT, arriving = state & OB_VCPU_ARRIVING;
	struct task_struct *task = ob_parked_task(state), *own = current;
	struct ob_loan loan = { .task = own };
	bool evict;
	u32 bits;

	ob_delay_point();
	if (!try_cmpxchg(&vcpu->state, &state, OB_VCPU_INTERRUPT))
		return false;
	/* A signal handler of the program finds the thread's own task: eintr.c. */
	WRITE_ONCE(ob_this_thread->loan, lent ? &loan : NULL);
	ob_bind(vcpu, task, task->thread.host_thread);
	bits = READ_ONCE(vcpu->pending);
	ob_this_thread->irqs_off = 0;
	ob_interrupts_run(!arriving);
	ob_this_thread->irqs_off = lent;
	evict = ob_must_evict(vcpu, bits, arriving) || (lent && ob_others_wait());
	if (evict)
		ob_evict(vcpu, task, arriving ? OB_EVICTED_ARRIVING : OB_EVICTED_OUT);
	if (own)
		ob_set_task(own);
	else
		ob_unbind();
	WRITE_ONCE(ob_this_thread->loan, NULL);
	ob_delay_point();
	if (!evict)
		xchg(&vcpu->state, state);
	return evict;
}

void ob_parked_service(struct ob_vcpu *vcpu)
{
	unsigned long state = READ_ONCE(vcpu->state);

	if (ob_is_parked(state) && ob_parked_interrupt(vcpu, state)) {
		ob_give_up(vcpu);
		ob_this_thread->irqs_off = 0;
	}
}

/* Is the thread of the parked task out in host code for as long as it would take to evict the task? */
static bool ob_client_stayed_out(struct ob_vcpu *vcpu, unsigned long state)
{
	unsigned long leaves = READ_ONCE(vcpu->leaves);
	u64 end = ob_host_clock_monotonic(ob_host) + OB_EVICTION_TAKES;

	if (!ob_is_parked(state) || state & OB_VCPU_ARRIVING)
		return false;
	/* On a host with one processor it is out, since it is not the thread that runs. */
	while (ob_machine.spinners_max && ob_host_clock_monotonic(ob_host) < end) {
		asm volatile("pause" ::: "memory");
		if (READ_ONCE(vcpu->state) != state || READ_ONCE(vcpu->leaves) != leaves)
			return false;
	}
	return true;
}

/*
 * By a client's thread that wants in, after it has set a pending bit for that. If another client is out
 * in host code, the caller does what the service thread would, which takes less than waking that. Returns
 * as ob_parked_interrupt().
 */
bool ob_evict_by_client(struct ob_vcpu *vcpu)
{
	unsigned long state = READ_ONCE(vcpu->state);

	return vcpu->service.stack && ob_client_stayed_out(vcpu, state) && ob_parked_interrupt(vcpu, state);
}

bool ob_check_is_due(struct ob_vcpu *vcpu, u64 now)
{
	return vcpu->service.check_at && now >= vcpu->service.check_at;
}

/* After the looks that were due: when is the next one? */
void ob_check_plan(struct ob_vcpu *vcpu, u64 now)
{
	struct ob_service *service = &vcpu->service;

	if (READ_ONCE(vcpu->watcher_baton))
		service->check_at = 0;
	else if (ob_check_is_due(vcpu, now))
		ob_check_postpone(vcpu, now);
	if (xchg(&service->check_wanted, 0) && !service->check_at)
		ob_check_begin(vcpu, now);
}
