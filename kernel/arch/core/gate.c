// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gate: how a client's thread comes into the kernel and leaves it (V4, V9).
 *
 * Entering is one compare-and-swap of the vCPU that the thread's task is parked
 * on; leaving is one exchange and a look at the pending word. What else can be
 * the matter is sorted out on the slow path:
 *
 *   no task yet            the thread is adopted (thread.c)
 *   INTERRUPT              another thread runs interrupts for the task, for microseconds: wait
 *   task evicted           have it woken, and wait for a vCPU
 *   vCPU held by us        a signal handler of the program interrupted a system call: refused
 *   halted, forked         refused
 *   block of another boot  emptied; then as without a task, but see ob_enter_again()
 *
 * A thread that is on the slow path, in ob_interrupt(), or ends its task, is in transit. Halt
 * waits until none is; "halting" and the count are ordered by full barriers on
 * both sides, so that whoever is not counted has seen that the machine halts.
 * A refused call is not counted: callers that try again and again would keep halt waiting.
 *
 * After a halt the kernel's data are made new for another boot, but for the count and the number of
 * the boot. So a late thread finds a kernel that is not ready, or the next one, and its own block
 * void. The number cannot change while the thread is in transit.
 */
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/syscalls.h>
#include <asm/syscall.h>
#include <outboard/tables.h>
#include "delay.h"
#include "runqueue.h"
#include "signal.h"
#include "vcpu.h"

void schedule_tail(struct task_struct *prev);

static atomic_t ob_transit __ob_host_data ____cacheline_aligned = ATOMIC_INIT(0);

static bool ob_is_open(void)
{
	return READ_ONCE(ob_machine.ready) && !READ_ONCE(ob_machine.halting);
}

/* 0: halt waits until ob_transit_end(). -ENODEV: there is no kernel, or it halts. */
int ob_transit_begin(void)
{
	if (!ob_is_open())
		return -ENODEV;
	atomic_inc(&ob_transit);
	virt_mb__after_atomic();
	if (ob_is_open())
		return 0;
	ob_transit_end();
	return -ENODEV;
}

/* The calling thread's task ends: it is counted as long as halt sees the task, too. */
void ob_transit_begin_exit(void)
{
	atomic_inc(&ob_transit);
}

void ob_transit_end(void)
{
	atomic_dec(&ob_transit);
}

unsigned int ob_transit_count(void)
{
	return atomic_read(&ob_transit);
}

/*
 * Empties the calling thread's block if it is another boot's. A handler of the program that
 * interrupts this makes no call: it finds the thread entering.
 */
static void ob_thread_take(void)
{
	struct ob_thread __ob_tls *thread = ob_this_thread;

	if (ob_thread_is_known())
		return;
	thread->parked = 0;
	thread->task = NULL;
	thread->vcpu = NULL;
	thread->percpu_offset = 0;
	thread->loan = NULL;
	thread->self = 0;
	thread->spinning.waits_to_skip = 0;
	thread->spinning.reluctance = 0;
	thread->spinning.pauses = 0;
	thread->cpu = 0;
	thread->irqs_off = 0;
	thread->kind = OB_THREAD_CLIENT;
	barrier();
	WRITE_ONCE(thread->boot, READ_ONCE(ob_boot));
}

/* The calling thread is the kernel's own, or boots it. */
void ob_thread_begin(enum ob_thread_kind kind)
{
	BUILD_BUG_ON(sizeof(struct ob_thread) > OB_THREAD_BLOCK_BYTES);
	BUILD_BUG_ON(offsetof(struct ob_thread, boot));
	ob_thread_take();
	ob_this_thread->kind = kind;
}

/*
 * The task sleeps: wake it and wait until it is switched to. An idle vCPU needs nobody else for that.
 * Interrupts are off until the thread is in: it may be given a vCPU with the run queue locked, where a
 * late signal (V6) must do nothing.
 */
static int ob_enter_evicted(struct task_struct *task)
{
	ob_this_thread->irqs_off = 1;
	barrier();
	if (ob_arrive(task, false))
		schedule_tail(ob_this_vcpu()->switched_from);
	barrier();
	ob_this_thread->irqs_off = 0;
	return 0;
}

/* The vCPU is parked on the task, or the service thread is at work for it, or has evicted it. */
static int ob_enter_known(struct task_struct *task)
{
	for (;;) {
		unsigned long state = ob_parked(task);
		struct ob_vcpu *vcpu = READ_ONCE(task->thread.vcpu);

		if (READ_ONCE(task->thread.evicted))
			return ob_enter_evicted(task);
		ob_delay_point();
		if (try_cmpxchg(&vcpu->state, &state, OB_VCPU_HELD))
			return 0;
		if (state == ob_moved(task) && try_cmpxchg(&vcpu->state, &state, OB_VCPU_HELD)) {
			ob_bind(vcpu, task, ob_this_thread->self);
			return 0;
		}
		ob_delay_point();
		if (ob_client_is_in())
			return -EDEADLK;
		ob_host_thread_yield(ob_host);
	}
}

static int ob_enter_unknown(void)
{
	int error;

	ob_this_thread->irqs_off = 1;
	barrier();
	error = ob_adopt();
	barrier();
	ob_this_thread->irqs_off = 0;
	return error;
}

/*
 * The word `entering` says that the calling thread is on the slow path. Interrupts are on while its
 * task may be parked: a signal handler of the program that makes a call then finds the fast path open.
 * A handler that does not is refused, because of this word; so the thread can turn interrupts off once
 * its task sleeps. Finding interrupts off, or the thread lent, means that a handler interrupted just
 * this, or the kernel.
 */
static bool ob_is_interrupted(void)
{
	return ob_this_thread->entering == READ_ONCE(ob_boot) ||
	       (ob_thread_is_known() && (ob_this_thread->irqs_off || ob_this_thread->loan));
}

/* In transit. */
static int ob_enter_counted(void)
{
	struct task_struct *task;
	int error;

	if (ob_is_interrupted())
		return -EDEADLK;
	ob_this_thread->entering = READ_ONCE(ob_boot);
	barrier();
	ob_thread_take();
	task = current;
	error = task ? ob_enter_known(task) : ob_enter_unknown();
	barrier();
	ob_this_thread->entering = 0;
	return error;
}

static noinline int ob_enter_slow(void)
{
	int error = ob_transit_begin();

	if (error)
		return error;
	error = ob_enter_counted();
	ob_transit_end();
	return error;
}

/* After this returned 0, the calling thread runs kernel code as its task. */
static __always_inline int ob_enter_fast(void)
{
	unsigned long parked = ob_this_thread->parked;

	/* Before the first boot, 0 is its number, too. */
	if (likely(parked && ob_is_of_this_boot(parked))) {
		struct ob_vcpu *vcpu = ob_this_vcpu();

		if (likely(try_cmpxchg(&vcpu->state, &parked, OB_VCPU_HELD)))
			return 0;
	}
	return ob_enter_slow();
}

int ob_enter(void)
{
	return ob_enter_fast();
}

/*
 * As ob_enter(), by a thread that left in the middle of a call, for a signal handler of the
 * program. `parked`: the word of its block, before it left. Returns -ENODEV if its task has ended
 * meanwhile, even if there is another kernel by now, or the thread has another task.
 */
int ob_enter_again(unsigned long parked)
{
	int error = ob_transit_begin();

	if (error)
		return error;
	if (ob_is_of_this_boot(parked) && ob_this_thread->parked == parked)
		error = ob_enter_counted();
	else
		error = -ENODEV;
	ob_transit_end();
	return error;
}

/*
 * The booting thread is a task from now on, before other threads are let in. It is not counted,
 * since no halt can begin. If that fails, its first call tries again, and tells why.
 */
void ob_become_first_client(void)
{
	if (!ob_enter_counted())
		ob_leave(0);
}

/* The kernel's exit work. */
static noinline enum ob_exit ob_leave_slow(long *result)
{
	enum ob_exit exit = OB_EXIT_LEAVE;

	if (need_resched())
		schedule();
	if (read_thread_flags() & (OB_TIF_EXIT_WORK & ~_TIF_NEED_RESCHED))
		exit = ob_signal_work(result);
	if (exit != OB_EXIT_GONE && ob_pending())
		ob_interrupts_run(false);
	return exit;
}

/* That is work for the next call that would block. */
static bool ob_only_interrupted(struct task_struct *task)
{
	return READ_ONCE(task->thread.interrupted) && !ob_pending() &&
	       (READ_ONCE(task->thread_info.flags) & OB_TIF_EXIT_WORK) == _TIF_NOTIFY_SIGNAL;
}

/* Returns true if the system call is to be made again. */
static __always_inline bool ob_leave_fast(struct task_struct *task, long *result)
{
	for (;;) {
		struct ob_vcpu *vcpu;
		unsigned long parked;

		while (unlikely(READ_ONCE(task->thread_info.flags) & OB_TIF_EXIT_WORK || ob_pending())) {
			enum ob_exit exit = ob_leave_slow(result);

			if (exit != OB_EXIT_LEAVE)
				return exit == OB_EXIT_AGAIN;
			if (ob_only_interrupted(task))
				break;
		}
		vcpu = ob_this_vcpu();
		parked = ob_this_thread->parked;
		if (ob_others_wait())
			ob_service_look(vcpu);
		vcpu->entries++;
		ob_delay_point();
		xchg(&vcpu->state, parked);
		ob_delay_point();
		/* The task is not looked at: halt may have ended it already. */
		if (likely(!READ_ONCE(vcpu->pending)))
			return false;
		if (!try_cmpxchg(&vcpu->state, &parked, OB_VCPU_HELD))
			return false;
	}
}

/* Leaves the kernel. Returns `result`, or what replaces it. */
long ob_leave(long result)
{
	while (ob_leave_fast(current, &result))
		result = -EINTR;
	return result;
}

long ob_kernel_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	long result = ob_enter_fast();

	if (unlikely(result))
		return result;
	do {
		if (likely((unsigned long)number < __NR_syscalls))
			result = sys_call_table[number](a, b, c, d, e, f);
		else
			result = -ENOSYS;
		if (unlikely(result == -ERESTART_RESTARTBLOCK))
			number = __NR_restart_syscall;
	} while (unlikely(ob_leave_fast(current, &result)));
	return result;
}

/* Runs a function as a system call of the calling thread. Its result, or why it could not be run. */
long ob_call(long (*function)(void *argument), void *argument)
{
	int error = ob_enter();

	return error ? error : ob_leave(function(argument));
}

/* A host thread ends, and its task with it. */
void ob_kernel_thread_exit(void)
{
	if (ob_thread_is_known() && current && ob_this_thread->kind == OB_THREAD_CLIENT && !ob_enter())
		ob_task_exit();
}

/* Host threads other than the calling one do not exist in the child. */
void ob_kernel_forked(void)
{
	ob_machine.halting = 1;
	ob_machine.stopping = 1;
	ob_machine.ready = 0;
	ob_unbind();
}
