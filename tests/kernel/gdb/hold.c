// SPDX-License-Identifier: GPL-2.0-only
/*
 * For test_gdb.py: kernel threads in known functions, one asleep and one that holds vCPU 1 for
 * good. With how=bug, no threads but a BUG() on the caller's. The loop begins when "go" is set, and
 * sets "looping".
 */
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>

static char *how = "";
module_param(how, charp, 0);
static bool go;
module_param(go, bool, 0600);
static bool looping;
module_param(looping, bool, 0400);

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

/*
 * Not before the module is loaded, for which Linux waits until every CPU has been idle or out of
 * the kernel.
 */
static int hold_looping(void *unused)
{
	while (!READ_ONCE(go))
		schedule_timeout_idle(1);
	WRITE_ONCE(looping, true);
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
	struct task_struct *asleep, *looper;

	if (!strcmp(how, "bug"))
		hold_bug();
	asleep = kthread_run(hold_asleep, NULL, "hold-asleep");
	if (IS_ERR(asleep))
		return PTR_ERR(asleep);
	looper = kthread_create(hold_looping, NULL, "hold-looping");
	if (IS_ERR(looper))
		return PTR_ERR(looper);
	kthread_bind(looper, 1);
	wake_up_process(looper);
	return 0;
}
module_init(hold_init);

MODULE_DESCRIPTION("Outboard test: to be looked at");
MODULE_LICENSE("GPL");
