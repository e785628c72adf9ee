// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel code that loops without any poll point: what it waits for can only come by an interrupt
 * (V5, V6).
 *
 *   /proc/spin-jiffies   until three ticks have come, on a client's thread
 *   /proc/spin-kthread   the same in a kernel thread, which is a coroutine
 *   /proc/spin-called    until spin-call has been read on another vCPU
 *   /proc/spin-call      calls a function on vCPU 1, once that loops
 *   /proc/spin-masked    with interrupts off, for longer than a signal takes to come
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/hardirq.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>

#define MASKED_NS (80 * NSEC_PER_MSEC)

static void spin_for_ticks(unsigned long ticks)
{
	unsigned long end = jiffies + ticks;

	while (time_before(jiffies, end))
		barrier();
}

static int jiffies_show(struct seq_file *file, void *unused)
{
	spin_for_ticks(3);
	seq_puts(file, "three ticks came\n");
	return 0;
}

static int spinner(void *done)
{
	spin_for_ticks(3);
	complete(done);
	return 0;
}

static int kthread_show(struct seq_file *file, void *unused)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct task_struct *task = kthread_run(spinner, &done, "spinner");

	if (IS_ERR(task))
		return PTR_ERR(task);
	wait_for_completion(&done);
	seq_puts(file, "three ticks came\n");
	return 0;
}

/* Observations of the function that spin-call calls. */
static struct {
	struct task_struct *spinner;	/* who spins on vCPU 1 */
	bool called;
	bool in_interrupt, on_spinner;
	int cpu;
} call;

static void called(void *unused)
{
	call.in_interrupt = in_hardirq();
	call.on_spinner = current == call.spinner;
	call.cpu = raw_smp_processor_id();
	WRITE_ONCE(call.called, true);
}

static int called_show(struct seq_file *file, void *unused)
{
	WRITE_ONCE(call.spinner, current);
	while (!READ_ONCE(call.called))
		barrier();
	seq_printf(file, "on vCPU %d, in an interrupt %d, of the spinner %d\n",
		   call.cpu, call.in_interrupt, call.on_spinner);
	return 0;
}

static int call_show(struct seq_file *file, void *unused)
{
	int error;

	while (!READ_ONCE(call.spinner))
		msleep(1);
	error = smp_call_function_single(1, called, NULL, 1);
	seq_printf(file, "error %d, from vCPU %d\n", error, raw_smp_processor_id());
	return 0;
}

static int works_done;

static void work_main(struct irq_work *work)
{
	works_done++;
}

static struct irq_work work = IRQ_WORK_INIT_HARD(work_main);

static int masked_show(struct seq_file *file, void *unused)
{
	unsigned long flags, ticks;
	int before, after;
	u64 end;

	works_done = 0;
	local_irq_save(flags);
	irq_work_queue(&work);
	ticks = jiffies;
	end = ktime_get_mono_fast_ns() + MASKED_NS;
	while (ktime_get_mono_fast_ns() < end)
		barrier();
	ticks = jiffies - ticks;
	before = works_done;
	local_irq_restore(flags);
	after = works_done;
	seq_printf(file, "%d while off, %d when on, %lu ticks\n", before, after, ticks);
	return 0;
}

static const struct {
	const char *name;
	int (*show)(struct seq_file *file, void *unused);
} entries[] = {
	{ "spin-jiffies", jiffies_show },
	{ "spin-kthread", kthread_show },
	{ "spin-called", called_show },
	{ "spin-call", call_show },
	{ "spin-masked", masked_show },
};

static void remove_entries(int count)
{
	while (count--)
		remove_proc_entry(entries[count].name, NULL);
}

static int __init spin_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(entries); i++) {
		if (!proc_create_single(entries[i].name, 0444, NULL, entries[i].show)) {
			remove_entries(i);
			return -ENOMEM;
		}
	}
	return 0;
}
module_init(spin_init);

static void __exit spin_exit(void)
{
	remove_entries(ARRAY_SIZE(entries));
}
module_exit(spin_exit);

MODULE_DESCRIPTION("Outboard test: loops without a poll point");
MODULE_LICENSE("GPL");
