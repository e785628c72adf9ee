// SPDX-License-Identifier: GPL-2.0-only
/*
 * The service thread of a vCPU, which does what no holder of the vCPU does:
 *
 *   the vCPU's timer            while no thread watches the idle vCPU; else only if that is late
 *   interrupts of a parked one  and evictions: parked.c
 *   a holder that takes none    sends it a signal, when bits have been pending for two ticks (V6);
 *                               if it is in user code, has the host end the entry once more
 *   a lent thread that is late  calls the carrier: idle.c
 *   the carrier                 makes it, where the start must not wait for that
 *   a start from a snapshot     has the host do the rest (ob_host_snapshot_finish()), once, at
 *                               `finish_at`; after a boot there is nothing to do
 *
 * Others make it run by changing its word (ob_service_notify()). Else it sleeps until the earliest
 * time at which one of these is due: ob_service_plan(). A host with timers does the work itself, by
 * calling ob_kernel_service(); then there is no such thread.
 */
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <asm/host.h>
#include <outboard/hypercall_snapshot.h>
#include <outboard/hypercall_spaces.h>
#include "carrier.h"
#include "coroutine.h"
#include "delay.h"
#include "gate.h"
#include "host.h"
#include "idle.h"
#include "machine.h"
#include "panic.h"
#include "parked.h"
#include "patience.h"
#include "service.h"
#include "stop.h"
#include "time.h"
#include "vcpu.h"

/* After this many nanoseconds a pending bit is old: two ticks. */
#define OB_PENDING_OLD (2 * NSEC_PER_SEC / HZ)

/* If the host has no thread, the service thread tries again after this many nanoseconds. */
#define OB_AGAIN_AFTER NSEC_PER_MSEC

/* The rest of a start from a snapshot is done after this many nanoseconds. */
#define OB_FINISH_AFTER NSEC_PER_SEC

/*
 * A thread that watches an idle vCPU is its timer. The service thread steps in when the timer is
 * this late, in nanoseconds.
 */
#define OB_TIMER_LATE (50 * NSEC_PER_USEC)

/* Stands for a thread's handle where the host calls ob_kernel_service(). */
#define OB_SERVICE_BY_HOST 1

/* How long a start from a snapshot waits until the host has a thread. In nanoseconds. */
#define OB_START_PATIENCE (10 * NSEC_PER_SEC)

/*
 * Makes the service thread, or the host in its place, run again. Returns the word on which the
 * caller wakes the thread; NULL: the host knows already. Any thread.
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

/* Returns when to check again on a holder that has bits pending; OB_FOREVER if none are. */
static u64 ob_watch_holder(struct ob_vcpu *vcpu, u64 now)
{
	struct ob_service *service = &vcpu->service;
	u64 holder = READ_ONCE(vcpu->bound_thread);
	u32 polls = READ_ONCE(vcpu->polls);

	if (!READ_ONCE(vcpu->pending) || READ_ONCE(vcpu->state) != OB_VCPU_HELD) {
		service->pending_since = 0;
		return OB_FOREVER;
	}
	if (!service->pending_since || service->polls_seen != polls) {
		service->polls_seen = polls;
		service->pending_since = now;
	} else if (now - service->pending_since >= OB_PENDING_OLD) {
		if (READ_ONCE(vcpu->in_space))
			ob_host_space_interrupt(ob_host, vcpu->id);
		else if (holder)
			ob_host_thread_interrupt(ob_host, holder);
		service->pending_since = now;
	}
	return service->pending_since + OB_PENDING_OLD;
}

/* When the service thread has to check the vCPU's timer; OB_FOREVER if the timer is not set. */
static u64 ob_timer_check_time(struct ob_vcpu *vcpu)
{
	u64 deadline = READ_ONCE(vcpu->service.deadline);

	if (!deadline)
		return OB_FOREVER;
	return READ_ONCE(vcpu->watcher_baton) ? deadline + OB_TIMER_LATE : deadline;
}

/*
 * Makes the carrier if that is owed. Returns whether the vCPU still has none, because the host has
 * no thread. A vCPU that is passed to the carrier waits until then.
 */
static bool ob_carrier_is_missing(struct ob_vcpu *vcpu)
{
	if (vcpu->service.owes_carrier && !ob_carrier_start(vcpu))
		vcpu->service.owes_carrier = false;
	return vcpu->service.owes_carrier;
}

/* When the thread has to run without a notification. `again`: the host had no thread. */
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

/* Does all that is due for the vCPU. Returns when the next thing is due; 0: at once. */
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
	/* From here on a thread that sets an earlier deadline notifies this one: time.c. */
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
	ob_thread_leaves(&vcpu->service.left);
}

/* The host calls, in the place of a service thread. */
u64 ob_kernel_service(u32 number)
{
	struct ob_vcpu *vcpu;
	u64 until;

	if (number >= ob_machine.vcpus)
		return OB_FOREVER;
	vcpu = &ob_vcpus[number];
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
	return ob_host_thread_create(ob_host, ob_service_main, vcpu, "outboard-timer",
				     &vcpu->service.handle);
}

/*
 * Makes the service thread, or announces the vCPU to a host that has timers. On a start from a
 * snapshot the booting thread may come here again, after ob_service_start_now(): it does nothing.
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

/* Before the vCPU starts. The thread stays even if the vCPU then fails to start. */
int ob_service_start(struct ob_vcpu *vcpu)
{
	bool has_stack = vcpu->service.stack;
	int error;

	if (READ_ONCE(vcpu->service.is_made))
		return 0;
	/* A vCPU from a snapshot has this stack already. */
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
 * On a start from a snapshot, the booting thread needs another thread of the vCPU earlier than it
 * wanted to make one. The host may have none for a moment. The stack is in the snapshot.
 */
void ob_service_start_now(struct ob_vcpu *vcpu)
{
	struct ob_patience patience = ob_patience_begin(OB_START_PATIENCE);
	u32 never = 0;

	while (ob_service_make_once(vcpu)) {
		if (ob_patience_is_over(&patience))
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
