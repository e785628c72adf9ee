// SPDX-License-Identifier: GPL-2.0-only
/*
 * Halt, step 1 (halt.c): the clients' tasks end. Calls in progress end as by a fatal signal. Tasks
 * whose threads are out in host code end as coroutines, in the place of their threads.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include "end_clients.h"
#include "evict.h"
#include "gate.h"
#include "machine.h"
#include "patience.h"
#include "vcpu.h"

/* A client's task that has not ended, of the local clients or of a process of its own. */
static bool ob_is_client(struct task_struct *task)
{
	return task != current && task->thread.client && !READ_ONCE(task->exit_state);
}

/* One that still runs kernel code, or may come back to it. */
static bool ob_is_active(struct task_struct *task)
{
	return ob_is_client(task) && READ_ONCE(task->thread.away) != OB_AWAY_OUT;
}

/* Has the tasks on which other vCPUs are parked evicted. */
static void ob_evict_all(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (cpu != raw_smp_processor_id())
			ob_raise(&ob_vcpus[cpu], OB_PENDING_EVICT);
}

static void ob_kill(struct task_struct *task)
{
	unsigned long flags;

	if (!lock_task_sighand(task, &flags))
		return;
	sigaddset(&task->pending.signal, SIGKILL);
	signal_wake_up(task, 1);
	unlock_task_sighand(task, &flags);
}

/*
 * Kills the active client tasks, one by one: a signal to the process would kill the halting thread,
 * too. Returns 0 if all threads are out; else a number. Threads in transit are counted before and
 * after the walk: a new one joins the list of tasks before it leaves transit, and one that ends
 * enters transit before it leaves the list.
 */
static unsigned int ob_kill_clients(void)
{
	unsigned int active = ob_transit_count();
	struct task_struct *process, *task;

	read_lock(&tasklist_lock);
	for_each_process_thread(process, task) {
		if (!ob_is_active(task))
			continue;
		active++;
		ob_kill(task);
	}
	read_unlock(&tasklist_lock);
	active += ob_transit_count();
	ob_evict_all();
	return active;
}

static unsigned int ob_quiesce_clients(void)
{
	struct ob_patience patience = ob_patience_begin(OB_PATIENCE);
	unsigned int active;

	while ((active = ob_kill_clients()) && !ob_patience_is_over(&patience))
		schedule_timeout_uninterruptible(1);
	return active;
}

/* An evicted task that halt has not ended yet, with a reference; or NULL. */
static struct task_struct *ob_find_evicted(void)
{
	struct task_struct *process, *task, *found = NULL;

	rcu_read_lock();
	for_each_process_thread(process, task)
		if (!found && ob_is_client(task) &&
		    READ_ONCE(task->thread.away) == OB_AWAY_OUT && !task->thread.stack)
			found = get_task_struct(task);
	rcu_read_unlock();
	return found;
}

/* Clients' tasks other than the halting one. They sleep, do exit work, or have done it. */
static bool ob_clients_remain(void)
{
	struct task_struct *process, *task;
	bool remain = false;

	rcu_read_lock();
	for_each_process_thread(process, task)
		remain |= ob_is_client(task);
	rcu_read_unlock();
	return remain;
}

/* Ends the client tasks whose threads are out in host code: all, unless some are stuck. */
static void ob_end_evicted(unsigned int stuck)
{
	struct ob_patience patience = ob_patience_begin(OB_PATIENCE);
	struct task_struct *task;
	bool again;

	do {
		again = false;
		while (!again && (task = ob_find_evicted())) {
			again = !ob_task_end_evicted(task);
			put_task_struct(task);
		}
		if (stuck || !ob_clients_remain())
			return;
		ob_evict_all();
		schedule_timeout_uninterruptible(1);
	} while (!ob_patience_is_over(&patience));
}

/*
 * Ends the tasks of all clients but the halting one. Returns 0; else how many of their threads
 * did not come out of the kernel. Blocks.
 */
unsigned int ob_clients_end(void)
{
	unsigned int stuck = ob_quiesce_clients();

	ob_end_evicted(stuck);
	return stuck;
}
