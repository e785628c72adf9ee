// SPDX-License-Identifier: GPL-2.0-only
/*
 * The vCPUs, and interrupts as pending bits. The protocol is in vcpu.h.
 */
#include <linux/cpumask.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include "baton.h"
#include "delay.h"
#include "vcpu.h"

struct ob_vcpu ob_vcpus[NR_CPUS];
struct ob_machine ob_machine;

/*
 * Makes the calling host thread run as `task` on the vCPU, which it has just been given. `host_thread`:
 * the host thread that the vCPU's signals (V6) go to. It is in the kernel, or the vCPU is not held:
 * a client that calls finds out by this word whether it is in already.
 */
void ob_bind(struct ob_vcpu *vcpu, struct task_struct *task, u64 host_thread)
{
	struct ob_thread __ob_tls *thread = ob_this_thread;

	thread->vcpu = vcpu;
	thread->cpu = vcpu->id;
	thread->percpu_offset = vcpu->percpu_offset;
	ob_set_task(task);
	ob_delay_point();
	WRITE_ONCE(vcpu->bound_thread, host_thread);
}

/* The calling thread has no task any more and gives its vCPU away: from here on it has none. */
void ob_unbind(void)
{
	/* In this order: a signal handler that finds a task uses the vCPU. */
	ob_set_task(NULL);
	barrier();
	WRITE_ONCE(ob_this_thread->vcpu, NULL);
}

/*
 * Does the calling client thread run kernel code? It is out while its vCPU is parked, another's, or its
 * task evicted. A task that halt has ended for its thread is not looked at: the vCPU has been bound since.
 */
bool ob_client_is_in(void)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();

	return READ_ONCE(vcpu->state) == OB_VCPU_HELD &&
	       READ_ONCE(vcpu->bound_thread) == ob_this_thread->self &&
	       !READ_ONCE(current->thread.evicted);
}

/* Makes sure that pending bits which are set already will be looked at. Returns as above. */
static u32 *ob_notify(struct ob_vcpu *vcpu)
{
	unsigned long state;

	ob_delay_point();
	virt_mb();
	if (READ_ONCE(vcpu->watcher_baton)) {
		ob_delay_point();
		return ob_idle_end(vcpu);
	}
	state = READ_ONCE(vcpu->state);
	ob_delay_point();
	if (!ob_is_parked(state) && state != OB_VCPU_INTERRUPT)
		return NULL;
	return ob_service_raise(vcpu);
}

void ob_kick(struct ob_vcpu *vcpu)
{
	ob_wake(ob_notify(vcpu));
}

/* Any thread, with or without a vCPU. Does not block. */
void ob_raise(struct ob_vcpu *vcpu, u32 bits)
{
	__atomic_fetch_or(&vcpu->pending, bits, __ATOMIC_SEQ_CST);
	ob_kick(vcpu);
}

/* Wakes whom ob_send() did not wake yet. */
void ob_wake_deferred(void)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();
	u32 *word = vcpu->deferred_wake;

	vcpu->deferred_wake = NULL;
	ob_wake(word);
}

/*
 * As ob_raise(), by the holder of a vCPU. The host may let a thread that is woken run at once, in the place of the one
 * that wakes it; and then wait for locks that this one holds. So the wake-up itself has time until interrupts are on.
 */
void ob_send(struct ob_vcpu *vcpu, u32 bits)
{
	struct ob_vcpu *own = ob_this_vcpu();
	u32 *word;

	__atomic_fetch_or(&vcpu->pending, bits, __ATOMIC_SEQ_CST);
	word = ob_notify(vcpu);
	if (word && ob_this_thread->irqs_off && !own->deferred_wake) {
		own->deferred_wake = word;
		__atomic_fetch_or(&own->pending, OB_PENDING_WAKE_HOST, __ATOMIC_SEQ_CST);
	} else {
		ob_wake(word);
	}
}

/*
 * Where to send what any vCPU could do: an idle one takes an interrupt at once,
 * a holder would take it at its next poll. Best is one that a client's thread looks after: it may be what that waits for.
 */
struct ob_vcpu *ob_vcpu_to_interrupt(void)
{
	struct ob_vcpu *best = NULL;
	unsigned int cpu;

	for_each_online_cpu(cpu) {
		struct ob_vcpu *vcpu = &ob_vcpus[cpu];
		u32 *watcher = READ_ONCE(vcpu->watcher_baton);

		if (watcher && watcher != &vcpu->carrier.baton)
			return vcpu;
		if (watcher && !best)
			best = vcpu;
	}
	return best ?: &ob_vcpus[0];
}

/*
 * Where a disk's request is completed. What waits for it ran last on the vCPU that submitted it: if
 * that idles, no other vCPU has to send it an interrupt.
 */
struct ob_vcpu *ob_vcpu_for_disks(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (READ_ONCE(ob_vcpus[cpu].watcher_baton) && atomic_read(&ob_vcpus[cpu].requests))
			return &ob_vcpus[cpu];
	return ob_vcpu_to_interrupt();
}
