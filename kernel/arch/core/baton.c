// SPDX-License-Identifier: GPL-2.0-only
/* The baton, by which a vCPU goes from one host thread to another. The protocol is in vcpu.h. */
#include "baton.h"
#include "delay.h"
#include "vcpu.h"

/*
 * A thread was to be woken that is not asleep. Most often it is just awake, or about to sleep. But
 * if it is lent, and stopped or in a signal handler of the program, somebody else has to carry on.
 */
void ob_wake_missed(const u32 *word)
{
	unsigned int cpu;

	for (cpu = 0; cpu < ob_machine.vcpus; cpu++)
		if (READ_ONCE(ob_vcpus[cpu].kicked_baton) == word)
			ob_service_notify(&ob_vcpus[cpu]);
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
		if (READ_ONCE(ob_vcpus[cpu].kicked_baton) && READ_ONCE(ob_vcpus[cpu].kicked_while_awake))
			ob_service_notify(&ob_vcpus[cpu]);
}

/* Sleeps until the baton is changed, or for `timeout` nanoseconds, or for no reason. */
void ob_baton_doze(u32 *baton, u32 seen, u64 timeout)
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
	ob_spin_for_bits(baton, bits);
	ob_baton_sleep(baton, bits);
}

void ob_baton_take(u32 *baton, u32 bit)
{
	ob_baton_await(baton, bit);
	__atomic_fetch_and(baton, ~(bit | OB_BATON_AWAITED), __ATOMIC_SEQ_CST);
}

/* Blocks the host thread. The caller holds no vCPU. */
void ob_baton_wait(u32 *baton)
{
	ob_baton_take(baton, OB_BATON_PASSED);
}
