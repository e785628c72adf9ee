// SPDX-License-Identifier: GPL-2.0-only
/* A kernel thread that is always busy, but lets others run. */
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>

static struct task_struct *thread;

static int be_busy(void *unused)
{
	while (!kthread_should_stop())
		cond_resched();
	return 0;
}

static int __init busy_init(void)
{
	thread = kthread_run(be_busy, NULL, "busy");
	return PTR_ERR_OR_ZERO(thread);
}
module_init(busy_init);

static void __exit busy_exit(void)
{
	kthread_stop(thread);
}
module_exit(busy_exit);

MODULE_DESCRIPTION("A kernel thread that is always busy, but lets others run");
MODULE_LICENSE("GPL");
