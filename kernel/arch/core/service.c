// SPDX-License-Identifier: GPL-2.0-only
/*
 * The service thread of a vCPU. It is the vCPU's timer, looks after it while
 * it is parked, and has a signal sent to a holder that does not poll (V6).
 *
 * For a parked vCPU it runs interrupts in the place of the parked task, as an
 * interrupt in user mode would. If the task then stands in the way of another,
 * or has not called for a whole tick, it is evicted (V8): put to sleep, on a stack of
 * the service thread's, in a state that only its own thread's next call wakes. So the
 * vCPU can go idle, and stop its tick, while its client computes.
 *
 * To make a thread takes long. So where the start is urgent, the service thread makes the vCPU's other one.
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
#include <linux/timekeeping.h>
#include <outboard/hypercall_snapshot.h>
#include "delay.h"
#include "host.h"
#include "runqueue.h"
#include "vcpu.h"

/* A pending bit is old after this many nanoseconds: two ticks. */
#define OB_PENDING_OLD (2 * NSEC_PER_SEC / HZ)

/* How soon the service thread looks again at a parked task that others wait for: at first, and at last. In nanoseconds. */
#define OB_LOOK_FIRST (50 * NSEC_PER_USEC)
#define OB_LOOK_LAST (NSEC_PER_SEC / HZ)

/* A client that has called less often since the last look is out for longer than it is in. */
#define OB_LOOK_BUSY 16

/* In nanoseconds. A client that wants in lets the thread of a parked task have this time to call. */
#define OB_EVICTION_TAKES (3 * NSEC_PER_USEC)

/* What failed for want of a host thread is tried again after this many nanoseconds. */
#define OB_AGAIN_AFTER NSEC_PER_MSEC

/* What starting from a snapshot has left for later is done after this many nanoseconds. */
#define OB_FINISH_AFTER (100 * NSEC_PER_MSEC)

/*
 * How long a lent thread may take to come to an idle vCPU that has something to do, when it was not
 * asleep to be woken. Then the carrier comes.
 */
#define OB_KICK_OLD NSEC_PER_MSEC

/* A thread that watches an idle vCPU is its timer. After this time the service thread steps in. */
#define OB_TIMER_LATE (50 * NSEC_PER_USEC)

/* In the place of a thread's handle, where the host calls ob_kernel_service(). */
#define OB_SERVICE_BY_HOST 1

/* How long the first vCPU waits for the host to have a thread for it. */
#define OB_START_PATIENCE (10 * NSEC_PER_SEC)

/*
 * Has the service thread, or the host in its place, look again. Any thread. Returns the word to
 * wake the thread on; NULL: the host knows already.
 */
u32 *ob_service_raise(struct ob_vcpu *vcpu)
{
	if (ob_host_groups.timer) {
		ob_host_service_request(ob_host, vcpu->id);
		return NULL;
	}
	__atomic_fetch_add(&vcpu->service.word, 1, __ATOMIC_SEQ_CST);
	return &vcpu->service.word;
}

/* As ob_service_raise(), and wakes it. */
void ob_service_notify(struct ob_vcpu *vcpu)
{
	u32 *word = ob_service_raise(vcpu);

	if (word)
		ob_host_wake(ob_host, word, 1);
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
static void ob_evict(struct ob_vcpu *vcpu, struct task_struct *task, enum ob_evicted why)
{
	struct ob_vcpu *asked = NULL;

	local_irq_disable();
	vcpu->service.look_at = 0;
	ob_delay_point();
	WRITE_ONCE(vcpu->holder, ob_this_thread->self);
	WRITE_ONCE(task->thread.evicted, why);
	virt_mb();
	ob_delay_point();
	/* Interrupts are off until the task sleeps: this one wakes it. */
	if (why == OB_EVICTED_OUT && task_work_pending(task))
		asked = ob_work_ask(task);
	if (asked)
		__atomic_fetch_or(&asked->pending, OB_PENDING_WAKE, __ATOMIC_SEQ_CST);
	WRITE_ONCE(vcpu->state, OB_VCPU_HELD);
	ob_delay_point();
	ob_coroutine_switch(&vcpu->service.context,
			    ob_coroutine_prepare(vcpu->service.stack, ob_evict_main));
}

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

static void ob_service_parked(struct ob_vcpu *vcpu)
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

/* Returns when to look again at a holder that has bits pending, OB_FOREVER if there are none. */
static u64 ob_watch_holder(struct ob_vcpu *vcpu, u64 now)
{
	struct ob_service *service = &vcpu->service;
	u32 polls = READ_ONCE(vcpu->polls);

	if (!READ_ONCE(vcpu->pending) || READ_ONCE(vcpu->state) != OB_VCPU_HELD) {
		service->pending_since = 0;
		return OB_FOREVER;
	}
	if (!service->pending_since || service->polls_seen != polls) {
		service->polls_seen = polls;
		service->pending_since = now;
	} else if (now - service->pending_since >= OB_PENDING_OLD) {
		ob_host_thread_interrupt(ob_host, READ_ONCE(vcpu->holder));
		service->pending_since = now;
	}
	return service->pending_since + OB_PENDING_OLD;
}

/* Has the carrier come where a lent thread does not (L4). Returns when to look again, OB_FOREVER if none is awaited. */
static u64 ob_watch_kicked(struct ob_vcpu *vcpu, u64 now)
{
	struct ob_service *service = &vcpu->service;
	u32 kicks = READ_ONCE(vcpu->kicks), *baton = READ_ONCE(vcpu->kicked);

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
	if (ob_idle_take_from(vcpu, baton))
		ob_baton_pass(&vcpu->carrier.baton);
	return OB_FOREVER;
}

static bool ob_look_is_due(struct ob_vcpu *vcpu, u64 now)
{
	return vcpu->service.look_at && now >= vcpu->service.look_at;
}

/* After the looks that were due: when is the next one? */
static void ob_look_plan(struct ob_vcpu *vcpu, u64 now)
{
	struct ob_service *service = &vcpu->service;

	if (READ_ONCE(vcpu->idle))
		service->look_at = 0;
	else if (ob_look_is_due(vcpu, now))
		ob_look_again(vcpu, now);
	if (xchg(&service->look_wanted, 0) && !service->look_at)
		ob_look_begin(vcpu, now);
}

/* When the service thread has to look at the vCPU's timer, OB_FOREVER if it is not set. */
static u64 ob_timer_look(struct ob_vcpu *vcpu)
{
	u64 deadline = READ_ONCE(vcpu->service.deadline);

	if (!deadline)
		return OB_FOREVER;
	return READ_ONCE(vcpu->idle) ? deadline + OB_TIMER_LATE : deadline;
}

/* Whether the vCPU has no carrier yet: the host had no more threads. What is passed to it until then waits. */
static bool ob_carrier_is_missing(struct ob_vcpu *vcpu)
{
	if (vcpu->service.starts_carrier && !ob_carrier_start(vcpu))
		vcpu->service.starts_carrier = false;
	return vcpu->service.starts_carrier;
}

/* When there is something to do that nobody will tell of. */
static u64 ob_service_plan(struct ob_vcpu *vcpu, u64 now, bool again)
{
	struct ob_service *service = &vcpu->service;
	u64 until = min(ob_watch_holder(vcpu, now), ob_watch_kicked(vcpu, now));

	if (now >= service->finish_at) {
		ob_host_snapshot_finish(ob_host);
		service->finish_at = OB_FOREVER;
	}
	until = min(until, service->finish_at);
	if (again)
		until = min(until, now + OB_AGAIN_AFTER);
	if (service->look_at)
		until = min(until, service->look_at);
	return min(until, ob_timer_look(vcpu));
}

/* All that there is to do for the vCPU now. Returns when there will be more; 0: at once. */
static u64 ob_service_turn(struct ob_vcpu *vcpu)
{
	u64 now = ob_host_clock_monotonic(ob_host);
	bool again = ob_carrier_is_missing(vcpu);
	u64 until;

	if (now >= ob_timer_look(vcpu))
		ob_timer_expire(vcpu, now);
	if (READ_ONCE(vcpu->pending) || ob_look_is_due(vcpu, now))
		ob_service_parked(vcpu);
	ob_look_plan(vcpu, now);
	if (READ_ONCE(ob_machine.stopping))
		return OB_FOREVER;
	if (READ_ONCE(vcpu->pending) && ob_is_parked(READ_ONCE(vcpu->state)))
		return 0;
	until = ob_service_plan(vcpu, now, again);
	/* Whoever sets an earlier deadline from here on tells us. */
	WRITE_ONCE(vcpu->service.sleeps_until, until);
	virt_mb();
	ob_delay_point();
	return min(until, ob_timer_look(vcpu));
}

static void ob_service_sleep(struct ob_vcpu *vcpu, u32 word, u64 until)
{
	u64 now = until == OB_FOREVER ? 0 : ob_host_clock_monotonic(ob_host);

	if (until > now)
		ob_host_wait(ob_host, &vcpu->service.word, word,
			     until == OB_FOREVER ? OB_FOREVER : until - now);
}

static void ob_service_main(void *argument)
{
	struct ob_vcpu *vcpu = argument;

	ob_thread_begin(OB_THREAD_SERVICE);
	for (;;) {
		u32 word = smp_load_acquire(&vcpu->service.word);

		ob_panic_check();
		if (READ_ONCE(ob_machine.stopping))
			break;
		ob_service_sleep(vcpu, word, ob_service_turn(vcpu));
	}
}

/* The host calls, in the place of a service thread. */
u64 ob_kernel_service(u32 number)
{
	struct ob_vcpu *vcpu = &ob_vcpus[number];
	u64 until;

	ob_thread_begin(OB_THREAD_SERVICE);
	do {
		if (READ_ONCE(ob_machine.stopping) ||
		    READ_ONCE(ob_machine.panicking) == OB_PANIC_REPORTED)
			return OB_FOREVER;
		until = ob_service_turn(vcpu);
	} while (!until);
	return until;
}

static int ob_service_make(struct ob_vcpu *vcpu)
{
	vcpu->service.finish_at = ob_host_clock_monotonic(ob_host) + OB_FINISH_AFTER;
	if (ob_host_groups.timer) {
		vcpu->service.handle = OB_SERVICE_BY_HOST;
		ob_host_service_request(ob_host, vcpu->id);
		return 0;
	}
	return ob_host_thread_create(ob_host, ob_service_main, vcpu, "outboard-timer", &vcpu->service.handle);
}

/*
 * The host has a timer for the vCPU, or gets a thread that is one. The booting thread of a kernel
 * from a snapshot may come here a second time, after ob_service_start_now(): it has nothing to do.
 */
static int ob_service_create(struct ob_vcpu *vcpu)
{
	int error = 0;

	if (!xchg(&vcpu->service.is_made, 1))
		error = ob_service_make(vcpu);
	if (error)
		WRITE_ONCE(vcpu->service.is_made, 0);
	return error;
}

/* Before the vCPU starts. It stays if the vCPU then does not. */
int ob_service_start(struct ob_vcpu *vcpu)
{
	bool has_stack = vcpu->service.stack;
	int error;

	if (READ_ONCE(vcpu->service.is_made))
		return 0;
	/* One that starts from a snapshot has its stack. */
	if (!has_stack)
		vcpu->service.stack = ob_stack_alloc();
	if (!vcpu->service.stack)
		return -ENOMEM;
	error = ob_service_create(vcpu);
	if (error && !has_stack) {
		ob_stack_free(vcpu->service.stack);
		vcpu->service.stack = NULL;
	}
	return error;
}

/*
 * The booting thread of a kernel that starts from a snapshot needs the service thread before it
 * would make it: a kernel thread has something to do. The host may have no thread for a moment.
 */
void ob_service_start_now(struct ob_vcpu *vcpu)
{
	u64 end = ob_host_clock_monotonic(ob_host) + OB_START_PATIENCE;
	u32 never = 0;

	while (ob_service_create(vcpu)) {
		if (ob_host_clock_monotonic(ob_host) >= end)
			panic("the host has no thread for the first vCPU");
		ob_host_wait(ob_host, &never, never, OB_AGAIN_AFTER);
	}
}

/* The machine is stopping. Blocks. */
void ob_service_end(struct ob_vcpu *vcpu)
{
	if (!vcpu->service.handle)
		return;
	if (ob_host_groups.timer)
		ob_host_service_end(ob_host, vcpu->id);
	else
		ob_host_thread_join(ob_host, vcpu->service.handle);
}

/* For a vCPU that did not start, on a machine that will not run. */
void ob_service_stop(struct ob_vcpu *vcpu)
{
	WRITE_ONCE(ob_machine.stopping, 1);
	ob_service_notify(vcpu);
	ob_service_end(vcpu);
}
