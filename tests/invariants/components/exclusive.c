// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel code that counts on being alone on its vCPU (V2, V3): it does not sleep, so nobody else
 * may run there meanwhile, and neither its vCPU nor its task may change.
 *
 *   /proc/exclusive           does that on a client's thread
 *   /proc/exclusive-kthread   the same in a new kernel thread, with sleeps between
 *
 * Both report how often it was not so, in all since the component was loaded.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/smp.h>

#define STEPS 20000
#define SECTIONS 5

struct section {
	struct task_struct *owner;
	long steps;			/* lost updates make it differ from the next */
	atomic_long_t sure_steps;
};

static DEFINE_PER_CPU(struct section, sections);
static atomic_long_t mistakes;

static void step(struct section *section, struct task_struct *task)
{
	if (this_cpu_ptr(&sections) != section || current != task ||
	    READ_ONCE(section->owner) != task)
		atomic_long_inc(&mistakes);
	WRITE_ONCE(section->steps, READ_ONCE(section->steps) + 1);
	atomic_long_inc(&section->sure_steps);
}

static void run_section(void)
{
	struct section *section = this_cpu_ptr(&sections);
	int i;

	if (READ_ONCE(section->owner) || section->steps != atomic_long_read(&section->sure_steps))
		atomic_long_inc(&mistakes);
	WRITE_ONCE(section->owner, current);
	for (i = 0; i < STEPS; i++)
		step(section, current);
	WRITE_ONCE(section->owner, NULL);
}

static int report(struct seq_file *file)
{
	seq_printf(file, "%ld mistakes\n", atomic_long_read(&mistakes));
	return 0;
}

static int client_show(struct seq_file *file, void *unused)
{
	run_section();
	return report(file);
}

static int kthread_main(void *done)
{
	int i;

	for (i = 0; i < SECTIONS; i++) {
		run_section();
		usleep_range(100, 200);
	}
	complete(done);
	return 0;
}

static int kthread_show(struct seq_file *file, void *unused)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct task_struct *task = kthread_run(kthread_main, &done, "exclusive");

	if (IS_ERR(task))
		return PTR_ERR(task);
	wait_for_completion(&done);
	return report(file);
}

static int __init exclusive_init(void)
{
	if (!proc_create_single("exclusive", 0444, NULL, client_show))
		return -ENOMEM;
	if (!proc_create_single("exclusive-kthread", 0444, NULL, kthread_show)) {
		remove_proc_entry("exclusive", NULL);
		return -ENOMEM;
	}
	return 0;
}
module_init(exclusive_init);

static void __exit exclusive_exit(void)
{
	remove_proc_entry("exclusive-kthread", NULL);
	remove_proc_entry("exclusive", NULL);
}
module_exit(exclusive_exit);

MODULE_DESCRIPTION("Outboard test: alone on a vCPU");
MODULE_LICENSE("GPL");
