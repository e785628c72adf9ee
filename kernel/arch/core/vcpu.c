// SPDX-License-Identifier: GPL-2.0-only
/*
 * The states of vCPUs, interrupts as pending bits, and the baton by which a
 * vCPU goes from one host thread to another. The protocol is in vcpu.h.
 */
#include <linux/cpu.h>
#include <linux/export.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <asm/spin.h>
#include "delay.h"
#include "vcpu.h"

struct ob_vcpu ob_vcpus[NR_CPUS];
struct ob_machine ob_machine;

/* A spinner looks this often before it lets others run. */
#define OB_SPINS 128

/* How often a spinner looks at a lock before it lets others run, and the most that it pauses before a look. */
#define OB_LOOKS 6
#define OB_PAUSES_MOST 32u

/*
 * Whoever waits for another host thread spins first: what it waits for often comes sooner than the
 * host could put it to sleep and wake it. But it may be this very spinning that keeps the other from its core. So after
 * it was in vain, the thread does not try again for a while, which gets longer each time. There are never more spinners than cores.
 */
#define OB_PATIENCE 20000		/* nanoseconds */
#define OB_RELUCTANCE_MOST 255u

/* Spins until the word has one of the bits, or until `end`. Returns whether it has. */
static bool ob_spin_until(const u32 *word, u32 bits, u64 end)
{
	unsigned int i;

	do {
		for (i = 0; i < 8; i++) {
			if (READ_ONCE(*word) & bits)
				return true;
			asm volatile("pause" ::: "memory");
		}
	} while (ob_host_clock_monotonic(ob_host) < end);
	return false;
}

static void ob_spin(const u32 *word, u32 bits)
{
	struct ob_spinning __ob_tls *mine = &ob_this_thread->spinning;

	if (mine->waits_to_skip) {
		mine->waits_to_skip--;
		return;
	}
	if (atomic_inc_return(&ob_machine.spinners) <= ob_machine.spinners_max) {
		if (ob_spin_until(word, bits, ob_host_clock_monotonic(ob_host) + OB_PATIENCE))
			mine->reluctance = 0;
		else
			mine->reluctance = min((u32)mine->reluctance * 2 + 1, OB_RELUCTANCE_MOST);
		mine->waits_to_skip = mine->reluctance;
	}
	atomic_dec(&ob_machine.spinners);
}

/*
 * Makes the calling host thread run as `task` on the vCPU, which it has just been given. `holder`:
 * the host thread that the vCPU's signals (V6) go to. It is in the kernel, or the vCPU is not held:
 * a client that calls finds out by this word whether it is in already.
 */
void ob_bind(struct ob_vcpu *vcpu, struct task_struct *task, u64 holder)
{
	struct ob_thread __ob_tls *thread = ob_this_thread;

	thread->vcpu = vcpu;
	thread->cpu = vcpu->id;
	thread->percpu_offset = vcpu->percpu_offset;
	ob_set_task(task);
	ob_delay_point();
	WRITE_ONCE(vcpu->holder, holder);
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
	       READ_ONCE(vcpu->holder) == ob_this_thread->self &&
	       !READ_ONCE(current->thread.evicted);
}

/* Returns the baton if a thread sleeps on it and has to be woken, else NULL. */
static u32 *ob_baton_set(u32 *baton, u32 bit)
{
	ob_delay_point();
	return __atomic_fetch_or(baton, bit, __ATOMIC_SEQ_CST) & OB_BATON_AWAITED ? baton : NULL;
}

/* Ends the idling of a vCPU, unless somebody else does. Returns the word to wake a thread on, NULL if none sleeps. */
static u32 *ob_idle_end(struct ob_vcpu *vcpu)
{
	u32 *baton = xchg(&vcpu->idle, NULL);

	if (!baton)
		return NULL;
	if (baton == &vcpu->carrier.baton)
		return ob_baton_set(baton, OB_BATON_PASSED);
	WRITE_ONCE(vcpu->kicks, vcpu->kicks + 1);
	/* Until it is known: what was seen in vain costs a notification. */
	WRITE_ONCE(vcpu->kicked_awake, true);
	WRITE_ONCE(vcpu->kicked, baton);
	baton = ob_baton_set(baton, OB_BATON_KICKED);
	if (baton)
		WRITE_ONCE(vcpu->kicked_awake, false);
	return baton;
}

/* Makes sure that pending bits which are set already will be looked at. Returns as above. */
static u32 *ob_notify(struct ob_vcpu *vcpu)
{
	unsigned long state;

	ob_delay_point();
	virt_mb();
	if (READ_ONCE(vcpu->idle)) {
		ob_delay_point();
		return ob_idle_end(vcpu);
	}
	state = READ_ONCE(vcpu->state);
	ob_delay_point();
	if (!ob_is_parked(state) && state != OB_VCPU_INTERRUPT)
		return NULL;
	return ob_service_raise(vcpu);
}

/*
 * A thread was to be woken that is not asleep. Most often it is just awake, or about to sleep. But
 * if it is lent, and stopped or in a signal handler of the program, somebody else has to carry on.
 */
static noinline void ob_wake_missed(const u32 *word)
{
	unsigned int cpu;

	for (cpu = 0; cpu < ob_machine.vcpus; cpu++)
		if (READ_ONCE(ob_vcpus[cpu].kicked) == word)
			ob_service_notify(&ob_vcpus[cpu]);
}

static void ob_wake(u32 *word)
{
	if (word && !ob_host_wake(ob_host, word, 1))
		ob_wake_missed(word);
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
void ob_wake_now(void)
{
	struct ob_vcpu *vcpu = ob_this_vcpu();
	u32 *word = vcpu->wake_later;

	vcpu->wake_later = NULL;
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
	if (word && ob_this_thread->irqs_off && !own->wake_later) {
		own->wake_later = word;
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
		u32 *idle = READ_ONCE(vcpu->idle);

		if (idle && idle != &vcpu->carrier.baton)
			return vcpu;
		if (idle && !best)
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
		if (READ_ONCE(ob_vcpus[cpu].idle) && atomic_read(&ob_vcpus[cpu].requests))
			return &ob_vcpus[cpu];
	return ob_vcpu_to_interrupt();
}

/* Wakes the one thread that waits for the baton, or lets its next wait return at once. */
void ob_baton_pass(u32 *baton)
{
	ob_wake(ob_baton_set(baton, OB_BATON_PASSED));
}

/*
 * A lent thread that was kicked while it spins was not woken. A signal handler of the program may
 * have interrupted it there, and wait for another thread. The next thread that goes to sleep has
 * the service thread watch the kick (L4).
 */
static void ob_kicks_report(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < ob_machine.vcpus; cpu++)
		if (READ_ONCE(ob_vcpus[cpu].kicked) && READ_ONCE(ob_vcpus[cpu].kicked_awake))
			ob_service_notify(&ob_vcpus[cpu]);
}

/* Sleeps until the baton is changed, or for `timeout` nanoseconds, or for no reason. */
static void ob_baton_doze(u32 *baton, u32 seen, u64 timeout)
{
	ob_kicks_report();
	if (try_cmpxchg(baton, &seen, seen | OB_BATON_AWAITED)) {
		ob_delay_point();
		ob_host_wait(ob_host, baton, seen | OB_BATON_AWAITED, timeout);
	}
}

static void ob_baton_sleep(u32 *baton, u32 bits)
{
	u32 seen;

	while (!((seen = READ_ONCE(*baton)) & bits))
		ob_baton_doze(baton, seen, OB_FOREVER);
}

/* Until the baton has one of the bits. Blocks the host thread. The caller holds no vCPU. */
static void ob_baton_await(u32 *baton, u32 bits)
{
	if (READ_ONCE(*baton) & bits)
		return;
	ob_spin(baton, bits);
	ob_baton_sleep(baton, bits);
}

static void ob_baton_take(u32 *baton, u32 bit)
{
	ob_baton_await(baton, bit);
	__atomic_fetch_and(baton, ~(bit | OB_BATON_AWAITED), __ATOMIC_SEQ_CST);
}

/* Blocks the host thread. The caller holds no vCPU. */
void ob_baton_wait(u32 *baton)
{
	ob_baton_take(baton, OB_BATON_PASSED);
}

/*
 * Raises the timer interrupt if it is due. Any thread. A client's thread may be stopped in here by a
 * debugger or a signal handler. The deadline is there until the interrupt is raised, so the service
 * thread raises it then. A second interrupt does no harm.
 */
void ob_timer_expire(struct ob_vcpu *vcpu, u64 now)
{
	u64 deadline = READ_ONCE(vcpu->service.deadline);

	if (!deadline || now < deadline)
		return;
	ob_raise(vcpu, OB_PENDING_TIMER);
	ob_delay_point();
	/* Unless the interrupt has set another one already. */
	cmpxchg(&vcpu->service.deadline, deadline, 0);
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
	ob_spin(baton, bits);
	while (!((seen = READ_ONCE(*baton)) & bits)) {
		deadline = READ_ONCE(vcpu->idle) == baton ? READ_ONCE(vcpu->service.deadline) : 0;
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
	vcpu->carrier.run = idle_task(vcpu->id);
	ob_delay_point();
	xchg(&vcpu->idle, baton);
	ob_delay_point();
	if (READ_ONCE(vcpu->pending))
		ob_wake(ob_idle_end(vcpu));
}

/*
 * The calling thread, which is lent, looks after the vCPU while that idles. Returns true if the thread shall carry it
 * on; false if the thread has been called back: the carrier looks after the vCPU. Blocks.
 */
bool ob_idle_watch(struct ob_vcpu *vcpu, u32 *baton)
{
	if (READ_ONCE(ob_machine.stopping))
		return false;
	ob_service_needed(vcpu);
	ob_idle_begin(vcpu, baton);
	ob_idle_await(vcpu, baton, OB_BATON_PASSED | OB_BATON_KICKED);
	ob_delay_point();
	if (cmpxchg(&vcpu->idle, baton, &vcpu->carrier.baton) == baton)
		return false;
	/* Whoever took it from there sets the bit. */
	ob_baton_take(baton, OB_BATON_KICKED);
	if (!ob_idle_take_from(vcpu, baton))
		return false;
	if (!(READ_ONCE(*baton) & OB_BATON_PASSED))
		return true;
	ob_baton_pass(&vcpu->carrier.baton);
	return false;
}

/*
 * A kicked vCPU goes to its lent thread, or to the carrier when that thread has not come for long.
 * Returns whether the caller was the first to take it.
 */
bool ob_idle_take_from(struct ob_vcpu *vcpu, u32 *baton)
{
	return cmpxchg(&vcpu->kicked, baton, NULL) == baton;
}

/* Takes a vCPU that idles from its carrier. The calling thread has to carry it on. */
bool ob_idle_take(struct ob_vcpu *vcpu)
{
	u32 *baton = &vcpu->carrier.baton;

	return READ_ONCE(vcpu->idle) == baton && cmpxchg(&vcpu->idle, baton, NULL) == baton;
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
	if (ob_service_replace(vcpu))
		return ob_give_up_and_wait(vcpu, baton);
	if (READ_ONCE(vcpu->pending))
		ob_kick(vcpu);
	ob_baton_wait(baton);
	return false;
}

/*
 * Of a loop that waits for another CPU: it may be that which waits for this very thread. A thread
 * without a vCPU (core/lock.h) owes nobody a wake-up and takes no interrupts. When the machine has
 * stopped, a thread that carries does not come back: the other one may have left for good.
 */
static void ob_wait_step(void)
{
	ob_panic_check();
	if (unlikely(!ob_this_vcpu()))
		return;
	if (unlikely(ob_this_vcpu()->wake_later))
		ob_wake_now();
	if (!ob_this_thread->irqs_off && ob_pending())
		ob_interrupts_poll();
	if (unlikely(READ_ONCE(ob_machine.stopping)) && ob_is_carrying())
		ob_carrier_leave();
}

/* A poll point of every loop that waits for another CPU (V5). */
void ob_cpu_relax(void)
{
	asm volatile("pause" ::: "memory");
	ob_wait_step();
	if (!(++ob_this_thread->spinning.spins % OB_SPINS))
		ob_host_thread_yield(ob_host);
}
EXPORT_SYMBOL(ob_cpu_relax);

static void ob_pause(u32 times)
{
	while (times--)
		asm volatile("pause" ::: "memory");
}

/*
 * Each look at a lock that others use takes its cache line from them, and they take it back, which costs more than what they do
 * under the lock. So the looks become rare, and whoever has the line gets something done meanwhile. A thread that meets others
 * again and again begins nearly where it has ended the last time. Not inlined: the thread may be another one at the end.
 */
static noinline u32 ob_pauses_begin(void)
{
	return ob_this_thread->spinning.pauses - ob_this_thread->spinning.pauses / 8 ?: 1;
}

static noinline void ob_pauses_end(u32 pauses)
{
	ob_this_thread->spinning.pauses = pauses;
}

/* Until `locked` is 1, and it was the caller who made it so. */
void ob_spin_wait(u32 *locked)
{
	u32 looks, pauses = ob_pauses_begin();

	for (;;) {
		for (looks = 0; looks < OB_LOOKS; looks++) {
			ob_pause(pauses);
			if (ob_spin_try(locked)) {
				ob_pauses_end(pauses);
				return;
			}
			pauses = min(pauses * 2, OB_PAUSES_MOST);
		}
		/* Whoever has the lock may wait for an answer of ours, or have stopped with it. */
		ob_wait_step();
		ob_host_thread_yield(ob_host);
	}
}
EXPORT_SYMBOL(ob_spin_wait);

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
