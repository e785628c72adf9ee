// SPDX-License-Identifier: GPL-2.0-only
/*
 * The service thread of a vCPU. It is the vCPU's timer, looks after it while
 * it is parked, and has a signal sent to a holder that does not poll (V6).
 *
 * To make a thread takes long. So where the start is urgent, the service thread makes the vCPU's other one.
 */
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <outboard/hypercall_snapshot.h>
#include "delay.h"
#include "host.h"
#include "vcpu.h"

/* A pending bit is old after this many nanoseconds: two ticks. */
#define OB_PENDING_OLD (2 * NSEC_PER_SEC / HZ)

/* What failed for want of a host thread is tried again after this many nanoseconds. */
#define OB_AGAIN_AFTER NSEC_PER_MSEC

/* What starting from a snapshot has left for later is done after this many nanoseconds. */
#define OB_FINISH_AFTER (100 * NSEC_PER_MSEC)

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
		ob_host_thread_interrupt(ob_host, READ_ONCE(vcpu->bound_thread));
		service->pending_since = now;
	}
	return service->pending_since + OB_PENDING_OLD;
}

/* When the service thread has to look at the vCPU's timer, OB_FOREVER if it is not set. */
static u64 ob_timer_check_time(struct ob_vcpu *vcpu)
{
	u64 deadline = READ_ONCE(vcpu->service.deadline);

	if (!deadline)
		return OB_FOREVER;
	return READ_ONCE(vcpu->watcher_baton) ? deadline + OB_TIMER_LATE : deadline;
}

/* Whether the vCPU has no carrier yet: the host had no more threads. What is passed to it until then waits. */
static bool ob_carrier_is_missing(struct ob_vcpu *vcpu)
{
	if (vcpu->service.owes_carrier && !ob_carrier_start(vcpu))
		vcpu->service.owes_carrier = false;
	return vcpu->service.owes_carrier;
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
	if (service->check_at)
		until = min(until, service->check_at);
	return min(until, ob_timer_check_time(vcpu));
}

/* All that there is to do for the vCPU now. Returns when there will be more; 0: at once. */
static u64 ob_service_turn(struct ob_vcpu *vcpu)
{
	u64 now = ob_host_clock_monotonic(ob_host);
	bool again = ob_carrier_is_missing(vcpu);
	u64 until;

	if (now >= ob_timer_check_time(vcpu))
		ob_timer_expire(vcpu, now);
	if (READ_ONCE(vcpu->pending) || ob_check_is_due(vcpu, now))
		ob_parked_service(vcpu);
	ob_check_plan(vcpu, now);
	if (READ_ONCE(ob_machine.stopping))
		return OB_FOREVER;
	if (READ_ONCE(vcpu->pending) && ob_is_parked(READ_ONCE(vcpu->state)))
		return 0;
	until = ob_service_plan(vcpu, now, again);
	/* Whoever sets an earlier deadline from here on tells us. */
	WRITE_ONCE(vcpu->service.sleeps_until, until);
	virt_mb();
	ob_delay_point();
	return min(until, ob_timer_check_time(vcpu));
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
 * from a snapshot and another thread's first call may both come here: the second one has nothing
 * to do.
 */
static int ob_service_make_once(struct ob_vcpu *vcpu)
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
	/* One that starts from a snapshot has its stack, which other threads may be about to use. */
	if (!has_stack)
		vcpu->service.stack = ob_stack_alloc();
	if (!vcpu->service.stack)
		return -ENOMEM;
	error = ob_service_make_once(vcpu);
	if (error && !has_stack) {
		ob_stack_free(vcpu->service.stack);
		vcpu->service.stack = NULL;
	}
	return error;
}

/*
 * The booting thread of a kernel that starts from a snapshot has to wait for another one, sooner than it wanted to make one. The
 * host may have none for a moment. The stack is in the snapshot.
 */
void ob_service_start_now(struct ob_vcpu *vcpu)
{
	u64 end = ob_host_clock_monotonic(ob_host) + OB_START_PATIENCE;
	u32 never = 0;

	while (ob_service_make_once(vcpu)) {
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
