// SPDX-License-Identifier: GPL-2.0-only
/* Tasks: how they are made, and how they end. adopt.c makes those of clients. */
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/string.h>
#include <asm/switch_to.h>
#include "adopt.h"
#include "coroutine.h"
#include "gate.h"
#include "idle.h"
#include "init.h"
#include "smp.h"
#include "switch.h"
#include "thread.h"
#include "vcpu.h"

static void ob_coroutine_main(void)
{
	struct task_struct *task;

	ob_switch_finished();
	ob_switch_tail();
	task = current;
	task->thread.function(task->thread.argument);
	/* Only init comes back: it has executed /init, and Linux takes it to be in user mode. */
	if (is_global_init(task))
		ob_init_main();
	do_exit(0);
}

int copy_thread(struct task_struct *task, const struct kernel_clone_args *args)
{
	struct thread_struct *thread = &task->thread;

	memset(thread, 0, sizeof(*thread));
	if (args->fn == ob_client_main) {
		ob_adoption_begin(task, args->fn_arg);
		return 0;
	}
	/* The client's host thread cannot be copied. */
	if (!args->fn && !args->idle)
		return -EOPNOTSUPP;
	thread->stack = ob_stack_alloc();
	if (!thread->stack)
		return -EAGAIN;
	thread->function = args->fn;
	thread->argument = args->fn_arg;
	thread->coroutine = ob_coroutine_prepare(thread->stack,
						 IS_ENABLED(CONFIG_SMP) && args->idle ?
						 ob_secondary_start : ob_coroutine_main);
	return 0;
}

/* A clone that failed half-way has a stack on which no thread ran. */
void exit_thread(struct task_struct *task)
{
	if (task != current && task->thread.stack)
		ob_stack_free(task->thread.stack);
}

static void ob_exit_main(void)
{
	do_exit(0);
}

/*
 * Ends the task of the calling host thread, which gives up its vCPU for good. The task's last steps
 * run on another stack. The final switch comes back here from there.
 */
void ob_task_exit(void)
{
	void *context, *stack;

	/* Other threads that end return theirs. */
	while (!(stack = ob_stack_alloc()))
		schedule_timeout_uninterruptible(1);
	ob_transit_begin_exit();
	current->thread.argument = &context;
	ob_coroutine_switch(&context, ob_coroutine_prepare(stack, ob_exit_main));
	ob_set_task(NULL);
	ob_give_up(ob_this_vcpu());
	ob_this_thread->irqs_off = 0;
	ob_stack_free(stack);
	ob_transit_end();
}

unsigned long __get_wchan(struct task_struct *task)
{
	return 0;
}
