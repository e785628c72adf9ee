// SPDX-License-Identifier: GPL-2.0-only
/*
 * For test_gdb.py: kernel threads in known functions, one asleep and one that holds vCPU 1 for good. With how=bug, no threads but
 * a BUG() on the caller's.
 */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>

static char *how = "";
module_param(how, charp, 0);

static noinline void sleep_for_good(void)
{
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		schedule();
	}
}

static int hold_asleep(void *unused)
{
	sleep_for_good();
	return 0;
}

/* Begins when the module has long been loaded, for which Linux waits until every CPU has been seen idle or out of the kernel. */
static int hold_looping(void *unused)
{
	schedule_timeout_idle(HZ / 4);
	for (;;)
		barrier();
	return 0;
}

static noinline void hold_bug(void)
{
	BUG();
}

static int __init hold_init(void)
{
	struct task_struct *asleep, *looping;

	if (!strcmp(how, "bug"))
		hold_bug();
	asleep = kthread_run(hold_asleep, NULL, "hold-asleep");
	if (IS_ERR(asleep))
		return PTR_ERR(asleep);
	looping = kthread_create(hold_looping, NULL, "hold-looping");
	if (IS_ERR(looping))
		return PTR_ERR(looping);
	kthread_bind(looping, 1);
	wake_up_process(looping);
	return 0;
}
module_init(hold_init);

MODULE_DESCRIPTION("Outboard test: to be looked at");
MODULE_LICENSE("GPL");
