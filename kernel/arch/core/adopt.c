// SPDX-License-Identifier: GPL-2.0-only
/*
 * Adoption: how a host thread becomes a client, with a task of its own.
 *
 * All local clients are threads of one process. Its leader (leader.c) clones itself for each host
 * thread that calls for the first time. The new task is bound to that host thread for life (V1):
 *
 *   the host thread   takes an idle vCPU, if there is one, and notes it in the adoption; puts the
 *                     adoption on the list ob_adoptions; sets OB_PENDING_ADOPT in its vCPU and
 *                     carries that, or raises it on the best vCPU; waits for the adoption's baton
 *   an interrupt      wakes the leader
 *   the leader        clones itself; the clone is host-bound and knows the adoption
 *   the first switch  to the clone passes that baton
 *   the host thread   comes for its task (ob_arrive()) and enters
 *
 * A process of its own (process.c) has tasks that are made before a host thread has them. Such a
 * task begins as one whose thread is out in host code (evict.c). A host thread without a task
 * claims it by its number, and is its thread from then on (V1). The word `claim`:
 *
 *   from   to      by
 *   NONE   OPEN    ob_claim_open(): the task is made
 *   OPEN   TAKEN   ob_claim_take(): a thread claims the task
 *   OPEN   VOID    ob_claim_void(): the task ends before that
 *   TAKEN  VOID    the same: its thread ends it in the kernel; or a signal does while the thread is
 *                  out, and the task ends as a coroutine (work.c). Then `away` is GONE
 *
 * One reference to the task belongs to the thread, claimed or to come. So the task's address names
 * no other task while the thread may compare it. A task that ends in the kernel, or was not
 * claimed, drops the reference itself. A thread that finds its task GONE holds no vCPU, and leaves
 * the reference in a list, which the next interrupt empties.
 *
 * Then the thread's kind is ENDED, and its calls fail (ESRCH) until it leaves or claims another
 * task: it must not be adopted among the local clients by chance.
 */
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/sched/task.h>
#include <linux/wait.h>
#include <asm/host.h>
#include "adopt.h"
#include "baton.h"
#include "check.h"
#include "deferred.h"
#include "evict.h"
#include "idle.h"
#include "machine.h"
#include "parked.h"
#include "switch.h"
#include "vcpu.h"

static struct ob_adoption *ob_adoptions;
static DECLARE_WAIT_QUEUE_HEAD(ob_adoptions_waiting);

/*
 * A clone begins on the vCPU that its host thread carries: so the thread need not be woken.
 * Afterwards Linux may move the task. These are the fields that Linux's own migrate_disable()
 * changes.
 */
static void ob_clone_pin(struct task_struct *task, struct ob_vcpu *vcpu)
{
	task->cpus_ptr = cpumask_of(vcpu->id);
	task->nr_cpus_allowed = 1;
}

static void ob_clone_unpin(void)
{
	raw_spin_lock_irq(&current->pi_lock);
	current->cpus_ptr = &current->cpus_mask;
	current->nr_cpus_allowed = cpumask_weight(&current->cpus_mask);
	raw_spin_unlock_irq(&current->pi_lock);
}

/* Never called: its address tells copy_thread() that the clone is host-bound. */
int ob_client_main(void *adoption)
{
	return 0;
}

/* By copy_thread(), for the clone. */
void ob_adoption_begin(struct task_struct *task, struct ob_adoption *adoption)
{
	task->thread.client = true;
	task->thread.adoption = adoption;
	task->thread.host_thread = adoption->host_thread;
	if (adoption->vcpu)
		ob_clone_pin(task, adoption->vcpu);
}

/*
 * In interrupt context. The leader shall run on this vCPU, where the clone begins: on another one,
 * host threads would have to wake each other. Linux tries wake_cpu first.
 */
void ob_adoptions_wake(void)
{
#ifdef CONFIG_SMP
	WRITE_ONCE(ob_machine.leader->wake_cpu, smp_processor_id());
#endif
	wake_up(&ob_adoptions_waiting);
}

/*
 * A new task sends no interrupt to the vCPU where it waits. If a client that computes has that vCPU
 * parked, no thread would look before the next tick.
 */
static void ob_clone_announce(int pid)
{
	struct task_struct *task;
	struct ob_vcpu *vcpu;

	rcu_read_lock();
	task = find_task_by_pid_ns(pid, &init_pid_ns);
	vcpu = task ? &ob_vcpus[task_cpu(task)] : NULL;
	rcu_read_unlock();
	if (vcpu && ob_is_parked(READ_ONCE(vcpu->state)))
		ob_check_request(vcpu);
}

/* A clone gets the credentials that its parent has at the moment. */
static int ob_adoption_clone(struct ob_adoption *adoption)
{
	const struct cred *own;
	int pid;

	if (WARN_ON_ONCE(adoption->parent != current))
		return -EINVAL;
	if (!adoption->cred)
		return user_mode_thread(ob_client_main, adoption, adoption->flags);
	own = override_creds(adoption->cred);
	pid = user_mode_thread(ob_client_main, adoption, adoption->flags);
	revert_creds(own);
	return pid;
}

/* By copy_thread(): the task waits for a thread that claims it. */
void ob_claim_open(struct task_struct *task)
{
	task->thread.client = true;
	task->thread.claim = OB_CLAIM_OPEN;
	task->thread.away = OB_AWAY_OUT;
	get_task_struct(task);
}

/* The calling task ends, on its thread or as a coroutine. */
void ob_claim_void(void)
{
	struct thread_struct *thread = &current->thread;
	u32 claim = xchg(&thread->claim, OB_CLAIM_VOID), away;

	if (claim == OB_CLAIM_OPEN || !thread->stack) {
		put_task_struct(current);
		return;
	}
	/* Halt ends tasks that are OUT, and their threads do not come back. */
	if (!(READ_ONCE(thread->away) & OB_AWAY_WORKING))
		return;
	away = xchg(&thread->away, OB_AWAY_GONE);
	ob_away_check(away, OB_AWAY_GONE);
	if (away & OB_AWAY_WANTED)
		ob_baton_pass(&thread->baton);
}

/* By the leader: gives the task of that number to a host thread. Returns 0 or -ESRCH. */
static int ob_claim_take(u32 number, u64 host_thread, struct task_struct **task)
{
	struct task_struct *found;
	int error = -ESRCH;

	rcu_read_lock();
	found = find_task_by_pid_ns(number, &init_pid_ns);
	if (found && cmpxchg(&found->thread.claim, OB_CLAIM_OPEN, OB_CLAIM_TAKEN) ==
		     OB_CLAIM_OPEN) {
		found->thread.host_thread = host_thread;
		*task = found;
		error = 0;
	}
	rcu_read_unlock();
	return error;
}

/* Tasks that are GONE, whose threads have left them. */
static struct task_struct *ob_gone;

/* By the task's thread, which has no vCPU: the task is GONE. Does not block. */
void ob_claim_forsake(struct task_struct *task)
{
	task->thread.gone_next = READ_ONCE(ob_gone);
	while (!try_cmpxchg(&ob_gone, &task->thread.gone_next, task))
		;
	ob_raise(ob_vcpu_to_interrupt(), OB_PENDING_ADOPT);
}

/* In interrupt context: drops the references of the threads. */
void ob_claim_release(void)
{
	struct task_struct *task = READ_ONCE(ob_gone) ? xchg(&ob_gone, NULL) : NULL, *next;

	for (; task; task = next) {
		next = task->thread.gone_next;
		put_task_struct(task);
	}
}

/* A thread asks for a task that waits for one. */
static void ob_claim_one(struct ob_adoption *adoption)
{
	adoption->error = ob_claim_take(adoption->claims, adoption->host_thread,
					  &adoption->task);
	ob_baton_pass(&adoption->baton);
}

static void ob_adopt_one(struct ob_adoption *adoption)
{
	int pid = ob_machine.halting ? -ENODEV : ob_adoption_clone(adoption);

	if (pid > 0)
		ob_clone_announce(pid);
	if (get_nr_threads(current) > 2)
		ob_vcpus_start_now();
	if (pid < 0) {
		if (pid != -ENODEV && pid != -ERESTARTNOINTR)
			pr_warn_ratelimited("a thread of the program cannot make calls: error %d "
					    "with %d tasks (limits: memory, threads-max and "
					    "pid_max in /proc/sys/kernel)\n", -pid, nr_threads);
		/* The leader has a signal only while halt stops it. */
		adoption->error = pid == -ERESTARTNOINTR ? -ENODEV : pid;
		ob_baton_pass(&adoption->baton);
	}
}

/* By the leader. Blocks until a thread waits to be adopted, or the kernel has to be renewed. */
void ob_adoptions_await(void)
{
	wait_event_idle(ob_adoptions_waiting,
			READ_ONCE(ob_adoptions) || READ_ONCE(ob_machine.renew));
}

/* By the leader: adopts the threads that wait. */
void ob_adoptions_serve(void)
{
	struct ob_adoption *adoption = xchg(&ob_adoptions, NULL), *next;

	for (; adoption; adoption = next) {
		next = adoption->next;
		if (adoption->claims)
			ob_claim_one(adoption);
		else
			ob_adopt_one(adoption);
	}
}

/* Takes an idle vCPU that can run tasks, for the calling thread. NULL: there is none. */
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
		return ob_raise_and_wait(ob_vcpu_to_interrupt(), OB_PENDING_ADOPT,
					 &adoption->baton);
	__atomic_fetch_or(&vcpu->pending, OB_PENDING_ADOPT, __ATOMIC_SEQ_CST);
	return ob_lend(vcpu, &adoption->baton);
}

/*
 * Makes the calling host thread a task. Interrupts are off. Returns 0, and the thread holds a vCPU;
 * else -ENODEV, or the error of the clone. Blocks.
 */
int ob_adopt(void)
{
	struct ob_adoption adoption = {
		.host_thread = ob_host_thread_self(ob_host),
		.parent = ob_machine.leader,
		.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
			 CLONE_SYSVSEM,
	};
	int error = ob_host_thread_adopted(ob_host);
	sigset_t none;
	bool switched;

	if (error)
		return error;
	ob_this_thread->self = adoption.host_thread;
	switched = ob_adoption_wait(&adoption);
	if (adoption.error) {
		/* The thread may have carried a vCPU meanwhile. */
		ob_unbind();
		return adoption.error;
	}
	if (ob_arrive(adoption.task, switched))
		ob_switch_tail();
	ob_clone_unpin();
	sigemptyset(&none);
	set_current_blocked(&none);
	return 0;
}

/*
 * Copies the calling task, as clone(2) does. The copy waits for a thread that claims it. Returns
 * its number.
 */
int ob_client_clone(u64 flags, int signal)
{
	struct kernel_clone_args args = {
		.flags = flags | CLONE_UNTRACED,
		.exit_signal = signal,
		.fn = ob_client_main,
	};

	return kernel_clone(&args);
}

/*
 * Gives the calling host thread, which has no task, the task of that number. The thread does not
 * hold a vCPU afterwards: to the kernel it is out in host code. Interrupts are off. Returns 0 or an
 * error. Blocks.
 */
int ob_claim(u32 number)
{
	struct ob_adoption adoption = {
		.host_thread = ob_host_thread_self(ob_host),
		.claims = number,
	};
	int error = ob_host_thread_adopted(ob_host);
	u8 kind = ob_this_thread->kind;

	if (error)
		return error;
	ob_this_thread->self = adoption.host_thread;
	ob_this_thread->kind = OB_THREAD_CLIENT;
	ob_adoption_wait(&adoption);
	/* The thread may have carried a vCPU meanwhile. */
	ob_unbind();
	if (adoption.error) {
		ob_this_thread->kind = kind;
		return adoption.error;
	}
	/* Some vCPU: nothing is parked on the task for its thread before that has bound itself. */
	WRITE_ONCE(ob_this_thread->vcpu, &ob_vcpus[0]);
	barrier();
	ob_set_task(adoption.task);
	return 0;
}
