// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of a kernel that is broken (V10), and back-traces with names.
 *
 * A panic prints its reason and place, and has the host end the process, so that a core can be
 * taken. Images stay as after a power cut. A host that has other kernels may contain the panic:
 * then all threads of this kernel stay where they are.
 */
#include <linux/console.h>
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/kmsg_dump.h>
#include <linux/panic_notifier.h>
#include <linux/sched/debug.h>
#include <linux/stacktrace.h>
#include <linux/uaccess.h>
#include <asm/host.h>
#include <asm/stacktrace.h>
#include <outboard/hypercall_spaces.h>
#include "machine.h"
#include "panic.h"

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
		frame = task->thread.frame;
	ob_walk_frames(frame, consume, cookie);
}

static bool ob_print_address(void *level, unsigned long address)
{
	printk("%s  %pBb\n", (const char *)level, (void *)address);
	return true;
}

void show_stack(struct task_struct *task, unsigned long *stack, const char *level)
{
	printk("%sCall trace of %s, process %d:\n", level, (task ?: current)->comm,
	       task_pid_nr(task ?: current));
	arch_stack_walk(ob_print_address, (void *)level, task, NULL);
}

void show_regs(struct pt_regs *regs)
{
	printk("at %pS\n", (void *)regs->ip);
}

/* What a panic reports to the user, whatever the log shows: the message and the place. */
struct ob_last_words {
	char text[2048];
	size_t used;
};
static struct ob_last_words ob_last_words;

static bool ob_words_add(void *words, unsigned long address)
{
	struct ob_last_words *last = words;

	last->used += scnprintf(last->text + last->used, sizeof(last->text) - last->used,
				"\n  %pB", (void *)address);
	return true;
}

/*
 * Called where threads wait or take interrupts: after a panic that the host contains, they stay
 * there for good. But until the panicking thread has reported, others go on: it may need their
 * locks.
 */
void ob_panic_check(void)
{
	u32 never = 0;

	while (unlikely(READ_ONCE(ob_machine.panicking) == OB_PANIC_REPORTED))
		ob_host_wait(ob_host, &never, never, OB_FOREVER);
}

/* User code stands still, too. */
static void ob_leave_spaces(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < ob_machine.vcpus; cpu++)
		ob_host_space_interrupt(ob_host, cpu);
}

/* Ends the kernel without Linux's panic(). The calling thread may have no task. */
void __noreturn ob_panic_host(const char *text)
{
	WRITE_ONCE(ob_machine.panicking, OB_PANIC_REPORTED);
	virt_mb();
	ob_leave_spaces();
	ob_host_panic(ob_host, text);
}

static bool ob_panic_ready;

/* Ends the kernel, whose code has failed: panics. */
void __noreturn ob_die(const char *what, const struct ob_fault *fault)
{
	if (!ob_panic_ready)
		ob_panic_host(what);
	/* A jump to a bad address makes no frame: the return address is on top of the stack. */
	if (fault->flags & OB_FAULT_EXECUTE)
		ob_words_add(&ob_last_words, READ_ONCE_NOCHECK(*(unsigned long *)fault->stack));
	ob_walk_frames(fault->frame, ob_words_add, &ob_last_words);
	panic("%s: %s address %llx at %pS", what,
	      fault->flags & OB_FAULT_WRITE ? "write to" : "read from",
	      fault->address, (void *)fault->instruction);
}

int is_valid_bugaddr(unsigned long address)
{
	return 1;
}

/*
 * BUG() panics with "BUG!" alone. Its place is a line in the log, which the log level may have kept
 * from the host: "BUG: failure at FILE:LINE/FUNCTION()!".
 */
static const char *ob_bug_place(void)
{
	static const char prefix[] = "BUG: failure at ";
	static char line[256], place[sizeof(line)];
	struct kmsg_dump_iter iter;
	size_t length;

	place[0] = '\0';
	kmsg_dump_rewind(&iter);
	while (kmsg_dump_get_line(&iter, false, line, sizeof(line) - 1, &length)) {
		const char *found;

		line[length] = '\0';
		found = strstr(line, prefix);
		if (found)
			strscpy(place, found + sizeof(prefix) - 1);
	}
	return strim(place);
}

static int ob_panic_report(struct notifier_block *block, unsigned long event, void *message)
{
	static char text[sizeof(ob_last_words.text) + 768];
	const char *place = strcmp(message, "BUG!") ? "" : ob_bug_place();

	console_flush_on_panic(CONSOLE_FLUSH_PENDING);
	/* After a fault the places are known already, and could not be found from here. */
	if (!ob_last_words.used)
		ob_walk_frames((unsigned long)__builtin_frame_address(0), ob_words_add,
			       &ob_last_words);
	scnprintf(text, sizeof(text), "%s%s%s%s", (char *)message, *place ? " " : "", place,
		  ob_last_words.text);
	ob_panic_host(text);
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
