// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tasks: how they are made, adopted from the host, and how they end.
 *
 * All local clients are threads of one process. Its leader is a coroutine that
 * does nothing but clone itself for each host thread that calls for the first
 * time. The new task is bound to that host thread for its whole life (V1): the
 * first switch to it passes the baton that the host thread waits for. If a vCPU idles, the host thread
 * carries it meanwhile, and with it the leader.
 *
 * It is not init itself, which not even halt could kill.
 */
#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/sched/task.h>
#include <linux/gfp.h>
#include <linux/oom.h>
#include <linux/pid_namespace.h>
#include <linux/wait.h>
#include <asm/switch_to.h>
#include "deferred.h"
#include "signal.h"
#include "snapshot.h"
#include "thread.h"
#include "vcpu.h"

void schedule_tail(struct task_struct *prev);

static struct ob_adoption *ob_adoptions;
static DECLARE_WAIT_QUEUE_HEAD(ob_adoptions_waiting);

/* What a new task begins with, interrupts off: the end of the switch that brought it here. */
static void ob_task_begin(void)
{
	schedule_tail(ob_this_vcpu()->switched_from);
}

static void ob_coroutine_main(void)
{
	struct task_struct *task;

	ob_switch_finished();
	ob_task_begin();
	task = current;
	task->thread.function(task->thread.argument);
	/* Only init comes back, from having executed /init: it is in "user mode" now. */
	if (is_global_init(task))
		ob_init_main();
	do_exit(0);
}

/*
 * A clone begins on the vCPU that its host thread carries: the thread goes on with it without being woken. After
 * that it goes where it is best. These are what Linux itself changes where migration is disabled.
 */
static void ob_begin_on(struct task_struct *task, struct ob_vcpu *vcpu)
{
	task->cpus_ptr = cpumask_of(vcpu->id);
	task->nr_cpus_allowed = 1;
}

static void ob_begun(void)
{
	raw_spin_lock_irq(&current->pi_lock);
	current->cpus_ptr = &current->cpus_mask;
	current->nr_cpus_allowed = cpumask_weight(&current->cpus_mask);
	raw_spin_unlock_irq(&current->pi_lock);
}

/* Marks a clone as host-bound in copy_thread(); never called. */
static int ob_client_main(void *adoption)
{
	return 0;
}

int copy_thread(struct task_struct *task, const struct kernel_clone_args *args)
{
	struct thread_struct *thread = &task->thread;

	memset(thread, 0, sizeof(*thread));
	if (args->fn == ob_client_main) {
		thread->adoption = args->fn_arg;
		thread->host_thread = thread->adoption->host_thread;
		if (thread->adoption->vcpu)
			ob_begin_on(task, thread->adoption->vcpu);
		return 0;
	}
	/* A copy of a client's host thread cannot be had. */
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

/* A clone that failed half-way has a stack that nobody ran on. */
void exit_thread(struct task_struct *task)
{
	if (task != current && task->thread.stack)
		ob_stack_free(task->thread.stack);
}

/*
 * In interrupt context. The leader is to run on this vCPU, where the clone begins: from any other it
 * would take host threads that wake each other. wake_cpu is where Linux looks first for a place.
 */
void ob_adoptions_wake(void)
{
#ifdef CONFIG_SMP
	WRITE_ONCE(ob_machine.leader->wake_cpu, smp_processor_id());
#endif
	wake_up(&ob_adoptions_waiting);
}

/*
 * A new task sends no interrupt to the vCPU where it waits. If that is parked on a client that
 * computes, nobody would look before the next tick.
 */
static void ob_adopted(int pid)
{
	struct task_struct *task;
	struct ob_vcpu *vcpu;

	rcu_read_lock();
	task = find_task_by_pid_ns(pid, &init_pid_ns);
	vcpu = task ? &ob_vcpus[task_cpu(task)] : NULL;
	rcu_read_unlock();
	if (vcpu && ob_is_parked(READ_ONCE(vcpu->state)))
		ob_service_look(vcpu);
}

static void ob_adopt_one(struct ob_adoption *adoption)
{
	const unsigned long flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
				    CLONE_THREAD | CLONE_SYSVSEM;
	int pid = ob_machine.halting ? -ENODEV :
		  user_mode_thread(ob_client_main, adoption, flags);

	if (pid > 0)
		ob_adopted(pid);
	if (get_nr_threads(current) > 2)
		ob_vcpus_start_now();
	if (pid < 0) {
		if (pid != -ENODEV && pid != -ERESTARTNOINTR)
			pr_warn_ratelimited("a thread of the program cannot make calls: error %d with %d tasks (limits: memory, threads-max and pid_max in /proc/sys/kernel)\n",
					    -pid, nr_threads);
		/* The leader has a signal only when it is being stopped. */
		adoption->error = pid == -ERESTARTNOINTR ? -ENODEV : pid;
		ob_baton_pass(&adoption->baton);
	}
}

static void ob_adopt_all(struct ob_adoption *adoption)
{
	struct ob_adoption *next;

	for (; adoption; adoption = next) {
		next = adoption->next;
		ob_adopt_one(adoption);
	}
}

static void ob_prepared(void)
{
	ob_secrets_prepare();
	/* Free pages that this CPU keeps for itself would be saved as if they were in use. */
	preempt_disable();
	drain_local_pages(NULL);
	preempt_enable();
	WRITE_ONCE(ob_machine.prepared, 1);
	ob_host_wake(ob_host, &ob_machine.prepared, 1);
}

/* System calls can be made from now on. A kernel with snapshots: ob_open() of snapshot.c. */
static void ob_ready(void)
{
	ob_vcpus_start_later();
	WRITE_ONCE(ob_machine.ready, 1);
	ob_host_wake(ob_host, &ob_machine.ready, 1);
}

/* The leader of the clients' process: a child of init that has init's mm. */
int ob_leader_main(void *unused)
{
	sigset_t all;

	ob_machine.leader = current;
	/* Signals to the process go to threads that can take them. */
	sigfillset(&all);
	set_current_blocked(&all);
	ob_signals_ignore();
	current->signal->flags |= SIGNAL_UNKILLABLE;
	current->signal->oom_score_adj = OOM_SCORE_ADJ_MIN;
#ifdef CONFIG_MMU
	current->mm->context.mirrored = true;
#endif
	ob_machine.components_error = ob_components_load(ob_machine.components);
	if (ob_machine.snapshot)
		ob_prepared();
	else
		ob_ready();
	for (;;) {
		wait_event_idle(ob_adoptions_waiting, READ_ONCE(ob_adoptions) || READ_ONCE(ob_machine.renew));
		if (READ_ONCE(ob_machine.renew))
			ob_snapshot_renew();
		ob_adopt_all(xchg(&ob_adoptions, NULL));
	}
}

/* A vCPU that idles and can run tasks, and which the calling thread has taken. NULL: there is none. */
static struct ob_vcpu *ob_take_any(void)
{
	unsigned int cpu;

	for_each_cpu(cpu, cpu_active_mask)
		if (ob_idle_take(&ob_vcpus[cpu]))
			return &ob_vcpus[cpu];
	return NULL;
}

/* Returns as ob_lend(). */
static bool ob_adoption_wait(struct ob_adoption *adoption)
{
	struct ob_vcpu *vcpu = ob_take_any();

	adoption->vcpu = vcpu;
	adoption->next = READ_ONCE(ob_adoptions);
	while (!try_cmpxchg(&ob_adoptions, &adoption->next, adoption))
		;
	if (!vcpu)
		return ob_raise_and_wait(ob_vcpu_to_interrupt(), OB_PENDING_ADOPT, &adoption->baton);
	__atomic_fetch_or(&vcpu->pending, OB_PENDING_ADOPT, __ATOMIC_SEQ_CST);
	return ob_lend(vcpu, &adoption->baton);
}

/*
 * Makes the calling host thread, whose interrupts are off, a task. It holds a
 * vCPU when this returns 0. Else -ENODEV, or why the clone failed. Blocks.
 */
int ob_adopt(void)
{
	struct ob_adoption adoption = { .host_thread = ob_host_thread_self(ob_host) };
	int error = ob_host_thread_adopted(ob_host);
	sigset_t none;
	bool switched;

	if (error)
		return error;
	ob_this_thread->self = adoption.host_thread;
	switched = ob_adoption_wait(&adoption);
	if (adoption.error) {
		/* It may have been lent meanwhile. */
		ob_unbind();
		return adoption.error;
	}
	if (ob_arrive(adoption.task, switched))
		ob_task_begin();
	ob_begun();
	sigemptyset(&none);
	set_current_blocked(&none);
	return 0;
}

/* In the place of a host thread that makes no more calls. */
static void ob_evicted_end_main(void)
{
	ob_switch_finished();
	ob_task_begin();
	do_exit(0);
}

/* Has a vCPU not left the task yet? */
static bool ob_is_on_vcpu(struct task_struct *task)
{
#ifdef CONFIG_SMP
	return smp_load_acquire(&task->on_cpu);
#else
	return task == current;
#endif
}

/*
 * Ends an evicted task: it goes on as a coroutine, to its end. The machine is halting, so its thread does
 * not come back. Returns false if that is not possible at this moment. Blocks.
 */
bool ob_task_end_evicted(struct task_struct *task)
{
	bool sleeps;
	void *stack;

	/* Its eviction may not be over. */
	if (!wait_task_inactive(task, TASK_PARKED))
		return false;
	stack = ob_stack_alloc();
	if (!stack)
		return false;
	/* Others may be about to wake it for its exit work. */
	raw_spin_lock_irq(&task->pi_lock);
	sleeps = READ_ONCE(task->__state) == TASK_PARKED && !task->on_rq && !ob_is_on_vcpu(task);
	if (sleeps) {
		task->thread.stack = stack;
		task->thread.coroutine = ob_coroutine_prepare(stack, ob_evicted_end_main);
	}
	raw_spin_unlock_irq(&task->pi_lock);
	if (sleeps)
		wake_up_state(task, TASK_PARKED);
	else
		ob_stack_free(stack);
	return sleeps;
}

static void ob_exit_main(void)
{
	do_exit(0);
}

/*
 * Ends the task of the calling host thread, which holds a vCPU and gives it up
 * for good. The task's last steps run on another stack, from which the final
 * switch comes back here.
 */
void ob_task_exit(void)
{
	void *context, *stack;

	/* Others that end give theirs back. */
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
