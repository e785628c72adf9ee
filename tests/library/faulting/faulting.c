// SPDX-License-Identifier: GPL-2.0-only
/*
 * From a reboot on, which a halt is, a kernel thread reads a bad address again and again, as code
 * does that handles the error. No interrupt reaches it, so that the halt leaves it behind.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

static bool is_ending, has_begun;

static int read_badly(void *unused)
{
	unsigned long flags;
	u32 value;

	while (!READ_ONCE(is_ending))
		msleep(1);
	local_irq_save(flags);
	pagefault_disable();
	WRITE_ONCE(has_begun, true);
	while (__get_user(value, (u32 __user *)8))
		;
	pagefault_enable();
	local_irq_restore(flags);
	return 0;
}

/* The thread that halts stays away from the vCPU of the other one. */
static int on_reboot(struct notifier_block *block, unsigned long event, void *unused)
{
	set_cpus_allowed_ptr(current, cpumask_of(0));
	WRITE_ONCE(is_ending, true);
	while (!READ_ONCE(has_begun))
		msleep(1);
	return NOTIFY_DONE;
}

static struct notifier_block block = { .notifier_call = on_reboot };

static int __init faulting_init(void)
{
	struct task_struct *thread = kthread_create(read_badly, NULL, "faulting");

	if (IS_ERR(thread))
		return PTR_ERR(thread);
	kthread_bind(thread, 1);
	wake_up_process(thread);
	return register_reboot_notifier(&block);
}
module_init(faulting_init);

MODULE_DESCRIPTION("A kernel thread that takes faults, and that no interrupt reaches");
MODULE_LICENSE("GPL");
