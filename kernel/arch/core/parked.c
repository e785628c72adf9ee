// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parked vCPUs: who takes their interrupts, and when the parked task is evicted (V8).
 *
 * A thread that leaves the kernel parks the vCPU on its task. While the thread is out in host code,
 * another thread takes the vCPU's interrupts with the parked task as `current`, as an interrupt in
 * user mode would be taken. The other thread is the service thread; or a client's thread whose own
 * task waits, since waking the service thread takes far longer (ob_evict_by_client()).
 *
 * After the interrupts the same thread evicts the parked task if one of these holds:
 *
 *   reason                                  how it is seen
 *   Linux wants another task to run now     need_resched()
 *   the task has exit work (V9)             ob_work_pends()
 *   its thread made no call between two     the second one finds `leaves` unchanged: at most a
 *   timer interrupts taken while parked     tick, less if other timers of Linux expire
 *   the machine halts                       OB_PENDING_EVICT
 *   it overstays                            the check below
 *   a client's thread came for the vCPU     ob_others_wait()
 *
 * Of an ARRIVING vCPU only the third counts: its thread has got the baton and comes.
 *
 * The check. To the scheduler a parked task computes, so a woken task would wait for ticks. While
 * others wait, the service thread checks 50 us later how often the client has left the kernel, and
 * again after twice that time, up to a tick. A client that left fewer than 16 times overstays: it
 * is out most of the time. A busy client stays: evicted, it would have to wait as long itself.
 *
 *   check_at       what it means          set by
 *   0              no check is due        a vCPU that idles, or others no longer wait; an eviction;
 *                                         the last check
 *   a time         check then             ob_check_begin(), ob_check_postpone()
 *
 * A thread that leaves others waiting sets `check_wanted`, and the service thread begins the
 * checks.
 */
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <asm/host.h>
#include "check.h"
#include "default_signal.h"
#include "delay.h"
#include "evict.h"
#include "idle.h"
#include "interrupt.h"
#include "machine.h"
#include "parked.h"
#include "runqueue.h"
#include "service.h"
#include "vcpu.h"

/* Pause before the first check, and the limit of the pauses, in nanoseconds. */
#define OB_CHECK_FIRST (50 * NSEC_PER_USEC)
#define OB_CHECK_LAST (NSEC_PER_SEC / HZ)

/* A client that left the kernel less often since the last check is out most of the time. */
#define OB_LEAVES_BUSY 16

/*
 * Duration of an eviction, in nanoseconds. A client's thread gives the other one that time to call.
 */
#define OB_EVICTION_TAKES (3 * NSEC_PER_USEC)

/* Sets the time of the next check. The pause doubles each time. */
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

/* Whether others wait for the vCPU, which its parked task hardly uses. In the task's place. */
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
 * Has the service thread begin the checks. By a thread that leaves others waiting, or that has put
 * a new task there. Any thread.
 */
void ob_check_request(struct ob_vcpu *vcpu)
{
	struct ob_service *service = &vcpu->service;

	if (READ_ONCE(service->check_at) || READ_ONCE(service->check_wanted))
		return;
	WRITE_ONCE(service->check_wanted, 1);
	ob_service_notify(vcpu);
}

/* Whether the parked task has to go, after its vCPU has taken the interrupts `bits`. */
static bool ob_must_evict(struct ob_vcpu *vcpu, u32 bits, bool arriving)
{
	bool made_no_call = bits & OB_PENDING_TIMER &&
			    vcpu->leaves == vcpu->service.leaves_at_tick;

	if (bits & OB_PENDING_TIMER)
		vcpu->service.leaves_at_tick = vcpu->leaves;
	/* Its thread has got the baton, and comes unless something holds it up. */
	if (arriving)
		return made_no_call;
	/* The thread may poll memory for the effect of this work (V9). */
	if (ob_work_pends(current))
		return true;
	return need_resched() || made_no_call || bits & OB_PENDING_EVICT ||
	       ob_parked_task_overstays(vcpu);
}

/*
 * Takes the interrupts of a vCPU whose state was `state`, a parked one, as its task. Returns true
 * if it evicted the task: the caller then holds the vCPU, with interrupts off, and passes the vCPU
 * on. Returns false at once if the task's thread has entered meanwhile.
 *
 * By the service thread, or by a client's thread that wants the vCPU and counts as lent here.
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
	barrier();
	WRITE_ONCE(ob_this_thread->loan, lent ? &loan : NULL);
	/* The task's thread may enter later by the fast path, which does not bind. */
	ob_bind(vcpu, task, task->thread.host_thread);
	ob_vcpu_check(vcpu, state, OB_VCPU_INTERRUPT);
	bits = READ_ONCE(vcpu->pending);
	ob_this_thread->irqs_off = 0;
	ob_interrupts_run(!arriving);
	ob_this_thread->irqs_off = lent;
	evict = ob_must_evict(vcpu, bits, arriving) || (lent && ob_others_wait());
	if (evict)
		ob_evict(vcpu, task, arriving ? OB_AWAY_ARRIVING : OB_AWAY_OUT);
	ob_restore_current(own);
	ob_delay_point();
	if (!evict) {
		ob_vcpu_check(vcpu, OB_VCPU_INTERRUPT, state);
		xchg(&vcpu->state, state);
	}
	return evict;
}

/* By the service thread. */
void ob_parked_service(struct ob_vcpu *vcpu)
{
	unsigned long state = READ_ONCE(vcpu->state);

	if (ob_is_parked(state) && ob_parked_interrupt(vcpu, state)) {
		ob_give_up(vcpu);
		ob_this_thread->irqs_off = 0;
	}
}

/* Whether the thread of the parked task stayed out in host code while the caller spun. */
static bool ob_client_stayed_out(struct ob_vcpu *vcpu, unsigned long state)
{
	unsigned long leaves = READ_ONCE(vcpu->leaves);
	u64 end = ob_host_clock_monotonic(ob_host) + OB_EVICTION_TAKES;

	if (!ob_is_parked(state) || state & OB_VCPU_ARRIVING)
		return false;
	/* On a host with one processor the calling thread runs, so the other one is out. */
	while (ob_machine.spinners_max && ob_host_clock_monotonic(ob_host) < end) {
		asm volatile("pause" ::: "memory");
		if (READ_ONCE(vcpu->state) != state || READ_ONCE(vcpu->leaves) != leaves)
			return false;
	}
	return true;
}

/*
 * By a client's thread that waits for its own task and has set a pending bit for that. If the
 * parked task's thread stays out in host code, the caller does the service thread's part. Returns
 * as ob_parked_interrupt().
 */
bool ob_evict_by_client(struct ob_vcpu *vcpu)
{
	unsigned long state = READ_ONCE(vcpu->state);

	return vcpu->service.stack && ob_client_stayed_out(vcpu, state) &&
	       ob_parked_interrupt(vcpu, state);
}

bool ob_check_is_due(struct ob_vcpu *vcpu, u64 now)
{
	return vcpu->service.check_at && now >= vcpu->service.check_at;
}

/* By the service thread, after a check that was due: plans the next one. */
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
