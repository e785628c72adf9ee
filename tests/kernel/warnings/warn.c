// SPDX-License-Identifier: GPL-2.0-only
/* Warns when it is loaded, for test_warnings.py; with stall=1 it does what RCU warns of. */
#include <linux/bug.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/rcupdate.h>

static bool stall;
module_param(stall, bool, 0);

static void warn_nothing(struct rcu_head *head)
{
}

static struct rcu_head warn_head;

/* The CPU goes through no quiescent state for five seconds, and RCU waits for one. */
static void warn_stall(void)
{
	unsigned long end = jiffies + 5 * HZ;

	call_rcu(&warn_head, warn_nothing);
	while (time_before(jiffies, end))
		cpu_relax();
	rcu_barrier();
}

static int __init warn_init(void)
{
	if (stall)
		warn_stall();
	else
		WARN(1, "asked for by a test");
	return 0;
}

module_init(warn_init);
MODULE_DESCRIPTION("Test: warns");
MODULE_LICENSE("GPL");
