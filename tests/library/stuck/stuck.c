// SPDX-License-Identifier: GPL-2.0-only
/* A thread that adds a network interface sleeps for ever, and no signal wakes it. */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/sched.h>

static int on_event(struct notifier_block *block, unsigned long event, void *info)
{
	while (event == NETDEV_REGISTER &&
	       strcmp(netdev_notifier_info_to_dev(info)->name, "lo")) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule();
	}
	return NOTIFY_DONE;
}

static struct notifier_block block = { .notifier_call = on_event };

static int __init stuck_init(void)
{
	return register_netdevice_notifier(&block);
}
module_init(stuck_init);

MODULE_DESCRIPTION("A thread that adds a network interface sleeps for ever");
MODULE_LICENSE("GPL");
