// SPDX-License-Identifier: GPL-2.0-only
/* The baton, on which a host thread waits for a vCPU. The protocol is in baton.h. */
#include <asm/host.h>
#include "baton.h"
#include "delay.h"
#include "idle.h"
#include "machine.h"
#include "service.h"
#include "spin.h"
#include "vcpu.h"

/*
 * The host found no thread asleep on the word. Most often the thread is awake, or about to sleep.
 * But a lent thread may be stopped, or in a signal handler of the program: the service thread
 * checks (L4).
 */
noinline void ob_wake_missed(const u32 *word)
{
	unsigned int cpu;

	for (cpu = 0; cpu < ob_machine.vcpus; cpu++)
		if (READ_ONCE(ob_vcpus[cpu].kicked_baton) == word)
			ob_service_notify(&ob_vcpus[cpu]);
}

/* Wakes the owner if it waits for the baton; else its next wait returns at once. */
void ob_baton_pass(u32 *baton)
{
	ob_wake(ob_baton_set(baton, OB_BATON_PASSED));
}

/*
 * A lent thread that was kicked may be held up: by a debugger, or by a signal handler of the
 * program that waits for another thread. So a thread that goes to sleep has the service thread
 * check on the kick (L4):
 *
 *   the lent thread was   the service thread checks
 *   awake                 at once
 *   asleep                once the caller has slept for 1 ms (`late`): the host wakes the lent
 *                         thread, which most often comes sooner
 *
 * Returns whether a check is put off.
 */
static bool ob_kicks_report(bool late)
{
	bool is_put_off = false;
	unsigned int cpu;

	for (cpu = 0; cpu < ob_machine.vcpus; cpu++) {
		struct ob_vcpu *vcpu = &ob_vcpus[cpu];

		if (!READ_ONCE(vcpu->kicked_baton))
			continue;
		if (late || READ_ONCE(vcpu->kicked_while_awake))
			ob_service_notify(vcpu);
		else
			is_put_off = true;
	}
	return is_put_off;
}

/* Sleeps until the baton changes, for `timeout` nanoseconds at most. May return early. */
void ob_baton_doze(u32 *baton, u32 seen, u64 timeout)
{
	bool check = ob_kicks_report(false);
	u32 awaited = seen | OB_BATON_AWAITED;

	if (!try_cmpxchg(baton, &seen, awaited))
		return;
	ob_delay_point();
	ob_host_wait(ob_host, baton, awaited, check ? min(timeout, OB_KICK_OLD) : timeout);
	if (check && READ_ONCE(*baton) == awaited)
		ob_kicks_report(true);
}

static void ob_baton_sleep(u32 *baton, u32 bits)
{
	u32 seen;

	while (!((seen = READ_ONCE(*baton)) & bits))
		ob_baton_doze(baton, seen, OB_FOREVER);
}

/* Returns when the baton has one of the bits. Blocks. The caller holds no vCPU. */
static void ob_baton_await(u32 *baton, u32 bits)
{
	if (READ_ONCE(*baton) & bits)
		return;
	ob_spin_for_bits(baton, bits);
	ob_baton_sleep(baton, bits);
}

/* Waits for the bit and clears it. Blocks. The caller holds no vCPU. */
void ob_baton_take(u32 *baton, u32 bit)
{
	ob_baton_await(baton, bit);
	__atomic_fetch_and(baton, ~(bit | OB_BATON_AWAITED), __ATOMIC_SEQ_CST);
}

/* Waits until the baton is passed. Blocks. The caller holds no vCPU. */
void ob_baton_wait(u32 *baton)
{
	ob_baton_take(baton, OB_BATON_PASSED);
}
