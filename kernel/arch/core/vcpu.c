// SPDX-License-Identifier: GPL-2.0-only
/* vCPUs: binding a host thread to one, and sending interrupts. The protocol is in vcpu.h. */
#include <linux/cpumask.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <asm/host.h>
#include <outboard/hypercall_spaces.h>
#include "baton.h"
#include "delay.h"
#include "idle.h"
#include "service.h"
#include "vcpu.h"

struct ob_vcpu ob_vcpus[NR_CPUS];

/*
 * Makes the calling host thread run as `task` on the vCPU, which it has just got. Signals of the
 * vCPU (V6) go to `host_thread`. A client's thread that calls finds by the same word whether it is
 * in the kernel already. So while the vCPU is HELD and does not idle, the word names a thread that
 * is in, or that has passed a baton; 0: a thread that gets no signals. Of an idle vCPU it is 0.
 *
 * A late signal of the vCPU that the thread had before may come in the middle, and the word of the
 * new vCPU may name this thread already. So `vcpu` comes after what belongs to it: until then, the
 * handler finds the old vCPU, which is another thread's, and takes no interrupts.
 */
void ob_bind(struct ob_vcpu *vcpu, struct task_struct *task, u64 host_thread)
{
	struct ob_thread __ob_tls *thread = ob_this_thread;

	thread->cpu = vcpu->id;
	thread->percpu_offset = vcpu->percpu_offset;
	barrier();
	WRITE_ONCE(thread->vcpu, vcpu);
	barrier();
	ob_set_task(task);
	ob_delay_point();
	WRITE_ONCE(vcpu->bound_thread, host_thread);
}

/* The calling thread loses its task and its vCPU. */
void ob_unbind(void)
{
	/* In this order: our signal handler uses the vCPU if it finds a task. */
	ob_set_task(NULL);
	barrier();
	WRITE_ONCE(ob_this_thread->vcpu, NULL);
}

/*
 * Whether the calling client's thread runs kernel code. It is out if its vCPU is parked or another
 * thread's, or its task is evicted. This never looks at a task that halt has ended: the vCPU was
 * bound to another thread before that.
 */
bool ob_client_is_in(void)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();

	return READ_ONCE(vcpu->state) == OB_VCPU_HELD &&
	       READ_ONCE(vcpu->bound_thread) == ob_this_thread->self &&
	       !READ_ONCE(current->thread.away);
}

/* The vCPU that the calling thread holds, whatever thread that is; NULL: none. */
struct ob_vcpu *ob_vcpu_of_caller(void)
{
	struct ob_vcpu *vcpu;

	if (!ob_thread_is_known() || !ob_this_thread->task)
		return NULL;
	vcpu = ob_this_vcpu();
	if (READ_ONCE(vcpu->state) != OB_VCPU_HELD ||
	    READ_ONCE(vcpu->bound_thread) != ob_this_thread->self)
		return NULL;
	return vcpu;
}

/*
 * Makes sure that some thread takes the bits that are pending. Returns the word on which the caller
 * has to wake a thread; NULL: none.
 */
static u32 *ob_notify(struct ob_vcpu *vcpu)
{
	unsigned long state;

	ob_delay_point();
	virt_mb();
	if (READ_ONCE(vcpu->watcher_baton)) {
		ob_delay_point();
		return ob_idle_end(vcpu);
	}
	if (READ_ONCE(vcpu->in_space)) {
		ob_host_space_interrupt(ob_host, vcpu->id);
		return NULL;
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

/* Sends interrupts. Any thread, with or without a vCPU. Does not block. */
void ob_raise(struct ob_vcpu *vcpu, u32 bits)
{
	__atomic_fetch_or(&vcpu->pending, bits, __ATOMIC_SEQ_CST);
	ob_kick(vcpu);
}

/* Does the wake-up that ob_send() put off. */
void ob_wake_deferred(void)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();
	u32 *word = vcpu->deferred_wake;

	vcpu->deferred_wake = NULL;
	ob_wake(word);
}

/*
 * As ob_raise(), by the holder of a vCPU. The host may run the woken thread in the place of this
 * one, which may hold locks that the woken thread needs. So with interrupts off the first wake-up
 * is deferred until they are on, or until the holder spins: ob_wake_deferred().
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
 * The best vCPU for an interrupt that any could take. An idle one takes it at once. Best of these
 * is one that a lent thread watches: that thread may wait for this very interrupt.
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
 * The best vCPU for the completion of a disk's request: an idle one that has submitted requests.
 * The waiting task ran there last, so no other vCPU has to send it an interrupt.
 */
struct ob_vcpu *ob_vcpu_for_disks(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (READ_ONCE(ob_vcpus[cpu].watcher_baton) && atomic_read(&ob_vcpus[cpu].requests))
			return &ob_vcpus[cpu];
	return ob_vcpu_to_interrupt();
}
