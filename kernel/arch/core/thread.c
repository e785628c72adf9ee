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
#include "program.h"
#include "smp.h"
#include "space_run.h"
#include "space_vector.h"
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
	/* It has executed its program. */
	if (task->thread.program)
		ob_program_run();
	/* Only init comes back: it has executed /init, and Linux takes it to be in user mode. */
	if (is_global_init(task))
		ob_init_main();
	do_exit(0);
}

int copy_thread(struct task_struct *task, const struct kernel_clone_args *args)
{
	struct thread_struct *thread = &task->thread;
	int error;

	memset(thread, 0, sizeof(*thread));
	/* Until the new task has an mm of its own. */
	thread->apart = current->thread.apart;
	if (args->fn == ob_client_main) {
		if (args->fn_arg)
			ob_adoption_begin(task, args->fn_arg);
		else
			ob_claim_open(task);
		return 0;
	}
	/* The client's host thread cannot be copied. */
	if (!args->fn && !args->idle && !current->thread.program)
		return -EOPNOTSUPP;
	thread->stack = ob_stack_alloc();
	if (!thread->stack)
		return -EAGAIN;
	error = ob_program_thread(thread, args);
	if (error) {
		ob_stack_free(thread->stack);
		ob_vectors_free(thread);
		return error;
	}
	if (thread->coroutine)
		return 0;
	thread->function = args->fn;
	thread->argument = args->fn_arg;
	thread->coroutine = ob_coroutine_prepare(thread->stack,
						 IS_ENABLED(CONFIG_SMP) && args->idle ?
						 ob_secondary_start : ob_coroutine_main);
	return 0;
}

/* A clone that failed half-way has a stack on which no thread ran. */
static void ob_clone_failed(struct task_struct *task)
{
	ob_vectors_free(&task->thread);
	if (task->thread.stack)
		ob_stack_free(task->thread.stack);
}

/* By Linux, for a task that ends and for a clone that failed. Halt still sees the former. */
void exit_thread(struct task_struct *task)
{
	if (task != current) {
		ob_clone_failed(task);
		return;
	}
	ob_vectors_free(&task->thread);
	if (task->thread.client && !task->thread.stack)
		ob_transit_begin_exit();
	if (ob_is_of_process(task))
		ob_claim_void();
}

/* Code that a client's thread runs on another stack, since the code may end the task. */
struct ob_apart {
	void *context;			/* first: the thread's own stack, for thread.argument */
	void (*function)(void *argument);
	void *argument;
	bool returned;
};

static void ob_apart_main(void)
{
	struct ob_apart *apart = current->thread.argument;
	void *abandoned;

	apart->function(apart->argument);
	apart->returned = true;
	ob_coroutine_switch(&abandoned, apart->context);
}

/* The final switch of the calling thread's task came back to the thread's own stack. */
static void ob_task_ended(void)
{
	ob_set_task(NULL);
	ob_give_up(ob_this_vcpu());
	ob_this_thread->irqs_off = 0;
}

/*
 * Runs a function on another stack. Returns true; or false: the function has ended the task of the
 * calling host thread, which has given up its vCPU for good.
 */
bool ob_run_apart(void (*function)(void *argument), void *argument)
{
	struct ob_apart apart = { .function = function, .argument = argument };
	void *stack;

	/* Other threads that end return theirs. */
	while (!(stack = ob_stack_alloc()))
		schedule_timeout_uninterruptible(1);
	current->thread.argument = &apart;
	ob_coroutine_switch(&apart.context, ob_coroutine_prepare(stack, ob_apart_main));
	if (!apart.returned)
		ob_task_ended();
	ob_stack_free(stack);
	if (!apart.returned)
		ob_transit_end();
	return apart.returned;
}

static void ob_exit(void *unused)
{
	do_exit(0);
}

/* Ends the task of the calling host thread, which gives up its vCPU for good. */
void ob_task_exit(void)
{
	ob_run_apart(ob_exit, NULL);
}

unsigned long __get_wchan(struct task_struct *task)
{
	return 0;
}
