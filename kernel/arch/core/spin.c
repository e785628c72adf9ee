// SPDX-License-Identifier: GPL-2.0-only
/*
 * How a host thread waits for another one without sleeping: for a baton, for a lock, and in the
 * loops of Linux that call cpu_relax().
 *
 *   waits for   spins                                 then
 *   a baton     20 us, unless spinning was in vain    sleeps (baton.c)
 *               lately, or as many threads spin as
 *               there are processors; never with
 *               one processor. A client whose answer
 *               may come through a driver 60 us, in
 *               which it serves the devices
 *   a lock      6 looks, with pauses between          takes interrupts if they are on, has the host
 *                                                     run others, and looks again
 *   cpu_relax   takes interrupts each time, if they   every 128th time: has the host run others
 *               are on
 */
#include <linux/export.h>
#include <linux/sched.h>
#include <asm/host.h>
#include <asm/spin.h>
#include "carrier.h"
#include "driver.h"
#include "machine.h"
#include "panic.h"
#include "spin.h"
#include "vcpu.h"

/* Turns of cpu_relax() before one ob_host_thread_yield(). */
#define OB_SPINS 128

/* Looks at a lock before the thread yields, and the most pauses before one look. */
#define OB_LOCK_LOOKS 6
#define OB_PAUSES_MOST 32u

/*
 * A waiter spins before it sleeps: the wake-up often arrives sooner than a futex round trip takes.
 * But the spinning may keep the other thread from its processor. After a vain attempt the waiter
 * skips some waits, twice as many each time. No more threads spin than there are processors.
 */
#define OB_PATIENCE 20000		/* nanoseconds */
/*
 * For an answer through a device. The other side may sleep: its thread that receives has to wake,
 * and wakes another one. Two sides with less patience would both learn not to spin.
 */
#define OB_PATIENCE_DEVICES 60000
#define OB_RELUCTANCE_MOST 255u

/* Spins until the word has one of the bits, or until the time `end`. Returns whether it has one. */
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

/*
 * Spins for a while. Returns whether the word has one of the bits. A client's answer may come
 * through a device of the host, whose thread need not wake if this one serves the device.
 */
static bool ob_spin(const u32 *word, u32 bits)
{
	u64 now = ob_host_clock_monotonic(ob_host), patience = OB_PATIENCE;
	int found = -ENODEV;

	if (ob_this_thread->kind == OB_THREAD_CLIENT)
		found = ob_drivers_poll(word, bits, now + OB_PATIENCE_DEVICES);
	if (found == -EAGAIN)
		patience = OB_PATIENCE_DEVICES;
	return found < 0 ? ob_spin_until(word, bits, now + patience) : found;
}

/* Spins, unless that was in vain lately or enough others spin. */
static bool ob_spin_if_useful(const u32 *word, u32 bits)
{
	struct ob_spinning __ob_tls *mine = &ob_this_thread->spinning;
	bool found = false;

	if (mine->waits_to_skip) {
		mine->waits_to_skip--;
		return false;
	}
	if (atomic_inc_return(&ob_machine.spinners) <= ob_machine.spinners_max) {
		found = ob_spin(word, bits);
		mine->reluctance = found ? 0 : min((u32)mine->reluctance * 2 + 1,
						   OB_RELUCTANCE_MOST);
		mine->waits_to_skip = mine->reluctance;
	}
	atomic_dec(&ob_machine.spinners);
	return found;
}

/* Does each vCPU idle? Then no client's thread comes back soon. */
static bool ob_all_idle(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (!READ_ONCE(ob_vcpus[cpu].watcher_baton))
			return false;
	return true;
}

/*
 * Spins for a while, if that is worth it, until the word has one of the bits. Else the thread is
 * about to sleep: threads of devices look from now on. A busy client looks itself when it waits, so
 * a carrier leaves the devices to it.
 */
void ob_spin_for_bits(const u32 *word, u32 bits)
{
	if (ob_spin_if_useful(word, bits))
		return;
	if (ob_this_thread->kind == OB_THREAD_CLIENT || ob_all_idle())
		ob_drivers_poll(word, bits, 0);
}

/*
 * One turn of a loop that waits for another vCPU, which may wait for this thread: so it sends the
 * wake-up that it deferred, and takes interrupts. A thread without a vCPU (core/lock.h) does
 * neither. When the machine has stopped, the other vCPU may never answer: a thread on a coroutine
 * leaves.
 */
static void ob_wait_step(void)
{
	ob_panic_check();
	if (unlikely(!ob_this_vcpu()))
		return;
	if (unlikely(ob_this_vcpu()->deferred_wake))
		ob_wake_deferred();
	if (!ob_this_thread->irqs_off && ob_pending())
		ob_interrupts_poll();
	if (unlikely(READ_ONCE(ob_machine.stopping)) && ob_is_on_coroutine())
		ob_carrier_leave();
}

/* A poll point in every loop that waits for another vCPU (V5). */
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
 * A look at a contended lock moves the lock's cache line, which costs more than the work under the
 * lock. So a waiter pauses longer before each look, and the owner gets its work done. The thread
 * remembers its last pause and starts the next wait a little below it.
 *
 * Not inlined: another host thread may run this task at the end of the wait.
 */
static noinline u32 ob_pauses_begin(void)
{
	return ob_this_thread->spinning.pauses - ob_this_thread->spinning.pauses / 8 ?: 1;
}

static noinline void ob_pauses_end(u32 pauses)
{
	ob_this_thread->spinning.pauses = pauses;
}

/* Returns when the caller has set `locked` from 0 to 1. */
void ob_spin_wait(u32 *locked)
{
	u32 looks, pauses = ob_pauses_begin();

	for (;;) {
		for (looks = 0; looks < OB_LOCK_LOOKS; looks++) {
			ob_pause(pauses);
			if (ob_spin_try(locked)) {
				ob_pauses_end(pauses);
				return;
			}
			pauses = min(pauses * 2, OB_PAUSES_MOST);
		}
		/* The owner of the lock may wait for this vCPU, or its thread may not run. */
		ob_wait_step();
		ob_host_thread_yield(ob_host);
	}
}
EXPORT_SYMBOL(ob_spin_wait);
