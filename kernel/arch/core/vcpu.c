// SPDX-License-Identifier: GPL-2.0-only
/*
 * The states of vCPUs, interrupts as pending bits, and the baton by which a
 * vCPU goes from one host thread to another. The protocol is in vcpu.h.
 */
#include <linux/cpu.h>
#include <linux/export.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <asm/spinlock.h>
#include "delay.h"
#include "vcpu.h"

struct ob_vcpu ob_vcpus[NR_CPUS];
struct ob_machine ob_machine;

/* A spinner looks this often before it lets others run. */
#define OB_SPINS 100

/*
 * Whoever waits for another host thread spins first: what it waits for often comes sooner than the
 * host could put it to sleep and wake it. For how long depends on how long it has had to wait lately, and
 * there are never more spinners than cores.
 */
#define OB_PATIENCE_LEAST 2000

static void ob_patience_learn(u32 *patience, u64 waited)
{
	if (waited <= OB_PATIENCE_MOST)
		*patience = clamp_t(u32, *patience * 2, OB_PATIENCE_LEAST, OB_PATIENCE_MOST);
	else
		*patience /= 2;
}

/* Spins while the word is `value`, until `end`. Returns whether it changed. */
static bool ob_spin_until(const u32 *word, u32 value, u64 end)
{
	unsigned int i;

	do {
		for (i = 0; i < 8; i++) {
			if (READ_ONCE(*word) != value)
				return true;
			asm volatile("pause" ::: "memory");
		}
	} while (ob_host_clock_monotonic() < end);
	return false;
}

static bool ob_spin(const u32 *word, u32 value, u32 patience, u64 now)
{
	bool changed = false;

	if (patience < OB_PATIENCE_LEAST)
		return false;
	if (atomic_inc_return(&ob_machine.spinners) <= ob_machine.spinners_max)
		changed = ob_spin_until(word, value, now + patience);
	atomic_dec(&ob_machine.spinners);
	return changed;
}

/* Makes the calling host thread run as `task` on the vCPU, which it has just been given. */
void ob_bind(struct ob_vcpu *vcpu, struct task_struct *task)
{
	struct ob_thread __ob_tls *thread = ob_this_thread;

	thread->vcpu = vcpu;
	thread->cpu = vcpu->id;
	thread->percpu_offset = vcpu->percpu_offset;
	thread->task = task;
	ob_delay_point();
	WRITE_ONCE(vcpu->holder, task && task->thread.host_thread ?
		   task->thread.host_thread : vcpu->carrier.thread);
}

/*
 * Does the calling client thread run kernel code? It is out while its vCPU is parked, another's, or its
 * task evicted. A task that halt has ended for its thread is not looked at: the vCPU has been bound since.
 */
bool ob_client_is_in(void)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();

	return READ_ONCE(vcpu->state) == OB_VCPU_HELD &&
	       READ_ONCE(vcpu->holder) == ob_host_thread_self() &&
	       !READ_ONCE(current->thread.evicted);
}

void ob_vcpu_prepare(unsigned int id)
{
	struct ob_vcpu *vcpu = &ob_vcpus[id];

	vcpu->id = id;
	vcpu->percpu_offset = per_cpu_offset(id);
}

/* Makes sure that pending bits which are set already will be looked at. */
void ob_kick(struct ob_vcpu *vcpu)
{
	unsigned long state;

	ob_delay_point();
	smp_mb();
	if (READ_ONCE(vcpu->idle)) {
		ob_delay_point();
		if (xchg(&vcpu->idle, OB_IDLE_NOT) == OB_IDLE_SLEEPS)
			ob_host_wake(&vcpu->idle, 1);
		return;
	}
	state = READ_ONCE(vcpu->state);
	ob_delay_point();
	if (ob_is_parked(state) || state == OB_VCPU_INTERRUPT)
		ob_service_notify(vcpu);
}

/* Any thread, with or without a vCPU. Does not block. */
void ob_raise(struct ob_vcpu *vcpu, u32 bits)
{
	__atomic_fetch_or(&vcpu->pending, bits, __ATOMIC_SEQ_CST);
	ob_kick(vcpu);
}

/*
 * Where to send what any vCPU could do: an idle one takes an interrupt at once,
 * a holder would take it at its next poll.
 */
struct ob_vcpu *ob_vcpu_to_interrupt(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (READ_ONCE(ob_vcpus[cpu].idle))
			return &ob_vcpus[cpu];
	return &ob_vcpus[0];
}

enum ob_baton {
	OB_BATON_NONE,
	OB_BATON_PASSED,
	OB_BATON_AWAITED,		/* somebody sleeps on the word */
};

/* Wakes the one thread that waits for the baton, or lets its next wait return at once. */
void ob_baton_pass(u32 *baton)
{
	ob_delay_point();
	if (xchg(baton, OB_BATON_PASSED) == OB_BATON_AWAITED)
		ob_host_wake(baton, 1);
}

static bool ob_baton_take(u32 *baton)
{
	return READ_ONCE(*baton) == OB_BATON_PASSED &&
	       cmpxchg(baton, OB_BATON_PASSED, OB_BATON_NONE) == OB_BATON_PASSED;
}

/* Blocks the host thread. The caller holds no vCPU. */
void ob_baton_wait(u32 *baton)
{
	u64 begin;

	if (ob_baton_take(baton))
		return;
	begin = ob_host_clock_monotonic();
	ob_spin(baton, OB_BATON_NONE, ob_patience, begin);
	while (!ob_baton_take(baton)) {
		u32 seen = cmpxchg(baton, OB_BATON_NONE, OB_BATON_AWAITED);

		ob_delay_point();
		if (seen != OB_BATON_PASSED)
			ob_host_wait(baton, OB_BATON_AWAITED, OB_FOREVER);
	}
	ob_patience_learn(&ob_patience, ob_host_clock_monotonic() - begin);
}

/* A poll point of every loop that waits for another CPU (V5). */
void ob_cpu_relax(void)
{
	asm volatile("pause" ::: "memory");
	if (!ob_this_thread->irqs_off && ob_pending())
		ob_interrupts_poll();
	if (!(++ob_this_thread->spins % OB_SPINS))
		ob_host_thread_yield();
}
EXPORT_SYMBOL(ob_cpu_relax);

void ob_spin_wait(arch_spinlock_t *lock)
{
	int i;

	for (;;) {
		for (i = 0; i < OB_SPINS; i++) {
			if (arch_spin_trylock(lock))
				return;
			asm volatile("pause" ::: "memory");
		}
		/* Whoever has the lock may wait for an answer of ours, or have stopped with it. */
		if (!ob_this_thread->irqs_off && ob_pending())
			ob_interrupts_poll();
		if (unlikely(READ_ONCE(ob_machine.stopping)) &&
		    ob_this_thread->kind == OB_THREAD_CARRIER)
			ob_carrier_leave();
		ob_host_thread_yield();
	}
}
EXPORT_SYMBOL(ob_spin_wait);

/*
 * Idle waits with the vCPU held: there is nobody else who could want it, and
 * whoever sets a pending bit wakes it.
 */
void arch_cpu_idle(void)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();
	u64 begin;

	if (unlikely(READ_ONCE(ob_machine.park)) && !vcpu->id)
		ob_idle_park();
	xchg(&vcpu->idle, OB_IDLE_SPINS);
	ob_delay_point();
	if (!READ_ONCE(vcpu->pending)) {
		begin = ob_host_clock_monotonic();
		if (!ob_spin(&vcpu->idle, OB_IDLE_SPINS, vcpu->idle_patience, begin) &&
		    cmpxchg(&vcpu->idle, OB_IDLE_SPINS, OB_IDLE_SLEEPS) == OB_IDLE_SPINS)
			ob_host_wait(&vcpu->idle, OB_IDLE_SLEEPS, OB_FOREVER);
		ob_patience_learn(&vcpu->idle_patience, ob_host_clock_monotonic() - begin);
	}
	ob_delay_point();
	WRITE_ONCE(vcpu->idle, OB_IDLE_NOT);
	raw_local_irq_enable();
	raw_local_irq_disable();
}
