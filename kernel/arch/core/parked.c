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
 * thread stays out: ob_service_replace(). To wake the service thread, and be woken by it, takes far longer.
 */
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/task_work.h>
#include "delay.h"
#include "runqueue.h"
#include "vcpu.h"

/* How soon the service thread looks again at a parked task that others wait for: at first, and at last. In nanoseconds. */
#define OB_LOOK_FIRST (50 * NSEC_PER_USEC)
#define OB_LOOK_LAST (NSEC_PER_SEC / HZ)

/* A client that has called less often since the last look is out for longer than it is in. */
#define OB_LOOK_BUSY 16

/* In nanoseconds. A client that wants in lets the thread of a parked task have this time to call. */
#define OB_EVICTION_TAKES (3 * NSEC_PER_USEC)

/* Sets the time of the next look, which is later each time. */
static void ob_look_again(struct ob_vcpu *vcpu, u64 now)
{
	struct ob_service *service = &vcpu->service;

	service->look_pause *= 2;
	service->look_at = service->look_pause < OB_LOOK_LAST ? now + service->look_pause : 0;
	service->look_entries = vcpu->entries;
}

static void ob_look_begin(struct ob_vcpu *vcpu, u64 now)
{
	vcpu->service.look_pause = OB_LOOK_FIRST / 2;
	ob_look_again(vcpu, now);
}

/* Others wait for the vCPU, whose task is parked and hardly makes use of it. On the vCPU. */
static bool ob_outstays(struct ob_vcpu *vcpu)
{
	struct ob_service *service = &vcpu->service;
	u64 now;

	if (!ob_others_wait()) {
		service->look_at = 0;
		return false;
	}
	now = ob_host_clock_monotonic(ob_host);
	if (!service->look_at)
		ob_look_begin(vcpu, now);
	else if (now >= service->look_at)
		return vcpu->entries - service->look_entries < OB_LOOK_BUSY;
	return false;
}

/*
 * Others wait for the vCPU, and nobody may have told the service thread: its client leaves it, or a
 * new task was put there. Any thread.
 */
void ob_service_look(struct ob_vcpu *vcpu)
{
	struct ob_service *service = &vcpu->service;

	if (READ_ONCE(service->look_at) || READ_ONCE(service->look_wanted))
		return;
	WRITE_ONCE(service->look_wanted, 1);
	ob_service_notify(vcpu);
}

static bool ob_in_the_way(struct ob_vcpu *vcpu, u32 bits, bool arriving)
{
	bool idle_for_a_tick = bits & OB_PENDING_TIMER &&
			       vcpu->entries == vcpu->service.entries_seen;

	if (bits & OB_PENDING_TIMER)
		vcpu->service.entries_seen = vcpu->entries;
	/* Its thread is on its way, if nothing holds it up. */
	if (arriving)
		return idle_for_a_tick;
	/* Exit work is not its thread's, which may poll memory for what that does (V9). */
	if (task_work_pending(current))
		return true;
	return need_resched() || idle_for_a_tick || bits & OB_PENDING_EVICT || ob_outstays(vcpu);
}

/*
 * Runs the interrupts of a vCPU whose state was `state`, PARKED, in the place of its task. Returns true
 * if the task was evicted: the caller holds the vCPU, with interrupts off, and passes it on. Does
 * nothing if the task's thread has entered meanwhile.
 *
 * The caller is the service thread, or a client's thread that is lent. The latter comes for the vCPU.
 */
static bool ob_interrupt_parked(struct ob_vcpu *vcpu, unsigned long state)
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
	evict = ob_in_the_way(vcpu, bits, arriving) || (lent && ob_others_wait());
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

void ob_service_parked(struct ob_vcpu *vcpu)
{
	unsigned long state = READ_ONCE(vcpu->state);

	if (ob_is_parked(state) && ob_interrupt_parked(vcpu, state)) {
		ob_give_up(vcpu);
		ob_this_thread->irqs_off = 0;
	}
}

/* Is the thread of the parked task out in host code for as long as it would take to evict the task? */
static bool ob_stays_out(struct ob_vcpu *vcpu, unsigned long state)
{
	unsigned long entries = READ_ONCE(vcpu->entries);
	u64 end = ob_host_clock_monotonic(ob_host) + OB_EVICTION_TAKES;

	if (!ob_is_parked(state) || state & OB_VCPU_ARRIVING)
		return false;
	/* On a host with one processor it is out, since it is not the thread that runs. */
	while (ob_machine.spinners_max && ob_host_clock_monotonic(ob_host) < end) {
		asm volatile("pause" ::: "memory");
		if (READ_ONCE(vcpu->state) != state || READ_ONCE(vcpu->entries) != entries)
			return false;
	}
	return true;
}

/*
 * By a client's thread that wants in, after it has set a pending bit for that. If another client is out
 * in host code, the caller does what the service thread would, which takes less than waking that. Returns
 * as ob_interrupt_parked().
 */
bool ob_service_replace(struct ob_vcpu *vcpu)
{
	unsigned long state = READ_ONCE(vcpu->state);

	return vcpu->service.stack && ob_stays_out(vcpu, state) && ob_interrupt_parked(vcpu, state);
}

bool ob_look_is_due(struct ob_vcpu *vcpu, u64 now)
{
	return vcpu->service.look_at && now >= vcpu->service.look_at;
}

/* After the looks that were due: when is the next one? */
void ob_look_plan(struct ob_vcpu *vcpu, u64 now)
{
	struct ob_service *service = &vcpu->service;

	if (READ_ONCE(vcpu->idle))
		service->look_at = 0;
	else if (ob_look_is_due(vcpu, now))
		ob_look_again(vcpu, now);
	if (xchg(&service->look_wanted, 0) && !service->look_at)
		ob_look_begin(vcpu, now);
}
