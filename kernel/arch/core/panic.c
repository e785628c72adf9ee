// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of a kernel that is broken (V10), and back-traces with names.
 *
 * A panic prints what and where, and ends the process by the host's means, so
 * that a core can be taken; the images stay as after a power cut.
 */
#include <linux/console.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/panic_notifier.h>
#include <linux/sched/debug.h>
#include <linux/stacktrace.h>
#include <linux/uaccess.h>
#include <asm/stacktrace.h>
#include "vcpu.h"

#define OB_FRAMES_MAX 64

void ob_walk_frames(unsigned long frame, bool (*report)(void *context, unsigned long address),
		    void *context)
{
	unsigned long link[2];		/* the caller's frame, the return address */
	int i;

	for (i = 0; i < OB_FRAMES_MAX && frame && !(frame & 7); i++) {
		if (copy_from_kernel_nofault(link, (void *)frame, sizeof(link)) ||
		    !__kernel_text_address(link[1]) || !report(context, link[1]))
			return;
		if (link[0] <= frame)
			return;
		frame = link[0];
	}
}

noinline void arch_stack_walk(stack_trace_consume_fn consume, void *cookie,
			      struct task_struct *task, struct pt_regs *regs)
{
	unsigned long frame;

	if (regs)
		frame = regs->bp;
	else if (!task || task == current)
		frame = (unsigned long)__builtin_frame_address(0);
	else
		frame = task->thread.regs.bp;
	ob_walk_frames(frame, consume, cookie);
}

struct ob_trace {
	const char *level;
};

static bool ob_print_address(void *context, unsigned long address)
{
	struct ob_trace *trace = context;

	printk("%s  %pSb\n", trace->level, (void *)address);
	return true;
}

void show_stack(struct task_struct *task, unsigned long *stack, const char *level)
{
	struct ob_trace trace = { level };

	printk("%sCall trace of %s, process %d:\n", level, (task ?: current)->comm,
	       task_pid_nr(task ?: current));
	arch_stack_walk(ob_print_address, &trace, task, NULL);
}

void show_regs(struct pt_regs *regs)
{
	printk("at %pS\n", (void *)regs->ip);
}

static bool ob_panic_ready;

/* Kernel code has done what it must not. */
void __noreturn ob_die(const char *what, const struct ob_fault *fault)
{
	struct ob_trace trace = { KERN_EMERG };

	if (!ob_panic_ready)
		ob_host_panic(what);
	console_verbose();
	pr_emerg("%s: %s address %016llx at %pS\n", what, fault->write ? "write to" : "read from",
		 fault->address, (void *)fault->instruction);
	ob_walk_frames(fault->frame, ob_print_address, &trace);
	panic("%s at %pS", what, (void *)fault->instruction);
}

int is_valid_bugaddr(unsigned long address)
{
	return 1;
}

static int ob_panic_report(struct notifier_block *block, unsigned long event, void *message)
{
	console_flush_on_panic(CONSOLE_FLUSH_PENDING);
	ob_host_panic(message);
}

static struct notifier_block ob_panic_block = {
	.notifier_call = ob_panic_report,
	.priority = INT_MAX,
};

void __init ob_panic_setup(void)
{
	atomic_notifier_chain_register(&panic_notifier_list, &ob_panic_block);
	ob_panic_ready = true;
}
