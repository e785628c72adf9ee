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

/* A client task that still runs kernel code, or may come back to it. */
static bool ob_is_active(struct task_struct *task)
{
	return task != current && task != ob_machine.leader &&
	       READ_ONCE(task->thread.away) != OB_AWAY_OUT;
}

/* Has the tasks on which other vCPUs are parked evicted. */
static void ob_evict_all(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (cpu != raw_smp_processor_id())
			ob_raise(&ob_vcpus[cpu], OB_PENDING_EVICT);
}

/*
 * Kills the active client tasks, one by one: a signal to the process would kill the halting thread,
 * too. Returns 0 if all threads are out; else a number. Threads in transit are counted before and
 * after the walk: a new one joins the list of tasks before it leaves transit, and one that ends
 * enters transit before it leaves the list.
 */
static unsigned int ob_kill_clients(void)
{
	struct sighand_struct *sighand = ob_machine.leader->sighand;
	unsigned int active = ob_transit_count();
	struct task_struct *task;

	spin_lock_irq(&sighand->siglock);
	for_each_thread(ob_machine.leader, task) {
		if (!ob_is_active(task))
			continue;
		active++;
		sigaddset(&task->pending.signal, SIGKILL);
		signal_wake_up(task, 1);
	}
	spin_unlock_irq(&sighand->siglock);
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
	struct task_struct *task, *found = NULL;

	rcu_read_lock();
	for_each_thread(ob_machine.leader, task)
		if (!found && READ_ONCE(task->thread.away) == OB_AWAY_OUT &&
		    !task->thread.stack)
			found = get_task_struct(task);
	rcu_read_unlock();
	return found;
}

/* Tasks other than the halting one and the leader. They sleep, do exit work, or have done it. */
static bool ob_clients_remain(void)
{
	struct task_struct *task;
	bool remain = false;

	rcu_read_lock();
	for_each_thread(ob_machine.leader, task)
		remain |= task != current && task != ob_machine.leader;
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
