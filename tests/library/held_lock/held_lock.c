// SPDX-License-Identifier: GPL-2.0-only
/*
 * Has the leader sleep in the middle of a start from a snapshot, when it sets the wall clock: a
 * thread sleeps with the lock that Linux takes there, that of the set of online CPUs.
 *
 * The thread brings up the second vCPU. The callback sleeps once, and refuses the vCPU; later it
 * comes up as always. A snapshot that is saved meanwhile has the sleeping thread in it.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/timekeeping.h>

/* Longer than the saving process takes from here to the snapshot. */
#define HELD_MS 1000

static bool released;
/* The wall clock when the lock was released. */
static unsigned long long released_at;
module_param(released_at, ullong, 0444);

static int on_prepare(unsigned int cpu)
{
	if (released)
		return 0;
	msleep(HELD_MS);
	WRITE_ONCE(released_at, ktime_get_real_ns());
	released = true;
	return -EAGAIN;
}

static int hold(void *unused)
{
	WARN_ON(add_cpu(1) != -EAGAIN);
	return 0;
}

static int __init held_lock_init(void)
{
	int state = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "held_lock", on_prepare, NULL);

	return state < 0 ? state : PTR_ERR_OR_ZERO(kthread_run(hold, NULL, "held_lock"));
}
module_init(held_lock_init);

MODULE_DESCRIPTION("A thread that sleeps with the lock of CPU hotplug");
MODULE_LICENSE("GPL");
