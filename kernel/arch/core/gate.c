// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gate: how a client's thread enters the kernel and leaves it (V4, V9).
 *
 * Enter, on the fast path: one compare-and-swap of the vCPU that the thread parked on its task,
 * PARKED to HELD. Pending interrupts wait until the call enables interrupts, or leaves.
 *
 * Leave:
 *
 *   1. Do exit work and take interrupts, until the task's flags and the pending word are clear
 *      (except the mark of ob_interrupt(): eintr.c). Stop early if the call is to be made again
 *      (OB_EXIT_AGAIN), or if the task is gone (OB_EXIT_GONE).
 *   2. If other tasks want the vCPU, have the service thread check on this one (parked.c).
 *   3. Exchange the vCPU's state, HELD to PARKED. From here on the task is not touched.
 *   4. Look at the pending word. If it has a bit, take the vCPU back and go to 1; unless another
 *      thread has taken the vCPU, and with it the bit.
 *
 * All other ways in take the slow path:
 *
 *   the thread's case        what the slow path does
 *   no task yet              adopts the thread: adopt.c
 *   the vCPU is INTERRUPT,   yields until that is over: another thread takes interrupts for the
 *   or about to be parked    task, or is about to park the vCPU on it
 *   the vCPU is MOVED        binds the thread to it
 *   the task is evicted      has it woken, and waits for a vCPU: evict.c
 *   it is in the kernel      refuses: a signal handler of the program has interrupted a call
 *   kernel halted, forked    refuses; also in a child that ran no hook of fork(): see ob_boot
 *   block of another boot    empties the block; then as without a task. But see ob_enter_again()
 *   it boots the kernel      refuses: see ob_become_first_client()
 *   its own process ended    refuses (ESRCH): adopt.c
 *
 * A thread in transit is on the slow path, or in ob_interrupt(), or ends its task. Halt waits until
 * no thread is (5 s at most; then the memory stays). A thread counts itself and then looks at
 * `halting`; halt sets `halting` and then looks at the count. Full barriers between make one of
 * them see the other. A refused call is not counted: callers that try again and again would hold up
 * the halt.
 *
 * After a halt all data of the kernel are made new for another boot, except this count and the
 * boot's number. So a late thread meets a kernel that is not ready, or the next one, which finds
 * that the thread's block is void. The number does not change while a thread is in transit.
 */
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/syscalls.h>
#include <asm/host.h>
#include <asm/syscall.h>
#include <outboard/gate.h>
#include "adopt.h"
#include "check.h"
#include "default_signal.h"
#include "delay.h"
#include "eintr.h"
#include "evict.h"
#include "gate.h"
#include "interrupt.h"
#include "machine.h"
#include "parked.h"
#include "runqueue.h"
#include "signal.h"
#include "switch.h"
#include "thread.h"
#include "vcpu.h"

static atomic_t ob_transit __ob_host_data ____cacheline_aligned = ATOMIC_INIT(0);

/* Not in a copy of the process, which has no number of a boot. */
static bool ob_is_open(void)
{
	return READ_ONCE(ob_machine.ready) && !READ_ONCE(ob_machine.halting) && READ_ONCE(ob_boot);
}

/* Returns 0, and halt waits until ob_transit_end(); or -ENODEV: there is no kernel, or it halts. */
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

/* Before the calling thread's task ends: halt sees the task or this count. */
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
 * Empties the calling thread's block if the block is another boot's. A signal handler of the
 * program may interrupt this, but its calls are refused: the thread is `entering`.
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

/* By a thread of the kernel's own, or one that boots the kernel. */
void ob_thread_begin(enum ob_thread_kind kind)
{
	BUILD_BUG_ON(offsetof(struct ob_thread, boot));
	ob_thread_take();
	ob_this_thread->kind = kind;
}

/* A signal has ended the task, whose process is its own. */
static int ob_enter_gone(struct task_struct *task)
{
	ob_unbind();
	ob_this_thread->kind = OB_THREAD_ENDED;
	ob_claim_forsake(task);
	return -ESRCH;
}

/*
 * Has the sleeping task woken, and waits until Linux switches to it. Interrupts are off: the thread
 * may get a vCPU whose run queue is locked, and a late signal (V6) must do nothing then.
 */
static int ob_enter_evicted(struct task_struct *task)
{
	ob_this_thread->irqs_off = 1;
	barrier();
	if (ob_arrive(task, false))
		ob_switch_tail();
	barrier();
	ob_this_thread->irqs_off = 0;
	return READ_ONCE(task->thread.away) & OB_AWAY_GONE ? ob_enter_gone(task) : 0;
}

/* A vCPU is parked on the task, or in an interrupt for it; or the task is evicted. */
static int ob_enter_known(struct task_struct *task)
{
	for (;;) {
		unsigned long state = ob_parked(task);
		struct ob_vcpu *vcpu = READ_ONCE(task->thread.vcpu);

		if (READ_ONCE(task->thread.away))
			return ob_enter_evicted(task);
		ob_delay_point();
		if (try_cmpxchg(&vcpu->state, &state, OB_VCPU_HELD)) {
			ob_vcpu_check(vcpu, state, OB_VCPU_HELD);
			return 0;
		}
		if (state == ob_moved(task) && try_cmpxchg(&vcpu->state, &state, OB_VCPU_HELD)) {
			ob_vcpu_check(vcpu, state, OB_VCPU_HELD);
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

	if (ob_this_thread->kind == OB_THREAD_ENDED)
		return -ESRCH;
	ob_this_thread->irqs_off = 1;
	barrier();
	error = ob_adopt();
	barrier();
	ob_this_thread->irqs_off = 0;
	return error;
}

/*
 * Whether this call comes from a signal handler that interrupted the slow path, or kernel code.
 *
 * The word `entering` marks a thread on the slow path. While its task may be parked, interrupts
 * stay on, since a handler's call could then take the fast path and must run with interrupts on.
 * All other calls of handlers are refused by this word. So the thread can turn interrupts off once
 * its task sleeps. Interrupts that are off, or a thread that is lent, also mean that kernel code
 * was interrupted.
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
	if (!error && unlikely(current->thread.signals_wait))
		ob_signals_recall();
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

/* Returns 0, and the calling thread runs kernel code as its task; or an error. */
static __always_inline int ob_enter_fast(void)
{
	/* Before the first boot both numbers are 0, and so is `parked`. */
	if (likely(ob_thread_is_known())) {
		unsigned long parked;

		barrier();
		parked = ob_this_thread->parked;
		if (likely(parked) &&
		    likely(try_cmpxchg(&ob_this_vcpu()->state, &parked, OB_VCPU_HELD))) {
			ob_vcpu_check(ob_this_vcpu(), parked, OB_VCPU_HELD);
			return 0;
		}
	}
	return ob_enter_slow();
}

int ob_enter(void)
{
	return ob_enter_fast();
}

/*
 * As ob_enter(), by a thread that left in the middle of a call to run a signal handler of the
 * program. `parked`, `boot`: the words of its block before it left. Returns -ENODEV if the task has
 * ended meanwhile, even if there is another kernel by now or the thread has another task.
 */
int ob_enter_again(unsigned long parked, u32 boot)
{
	int error = ob_transit_begin();

	if (error)
		return error;
	if (ob_thread_is_known() && ob_this_thread->boot == boot &&
	    ob_this_thread->parked == parked)
		error = ob_enter_counted();
	else
		error = -ENODEV;
	ob_transit_end();
	return error;
}

/* Linux's exit work, and pending interrupts. */
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

/* Whether the only work left is ob_interrupt()'s mark, for the next call that would block. */
static bool ob_only_interrupted(struct task_struct *task)
{
	return ob_eintr_is_marked(task) && !ob_pending() &&
	       (READ_ONCE(task->thread_info.flags) & OB_TIF_EXIT_WORK) == _TIF_NOTIFY_SIGNAL;
}

/*
 * Returns true if the system call is to be made again. `closed`: nobody may enter yet. Then the
 * thread loses its parked word before it gives the vCPU up: a signal handler would get in by it.
 */
static __always_inline bool ob_leave_fast(struct task_struct *task, long *result, bool closed)
{
	for (;;) {
		struct ob_vcpu *vcpu;
		unsigned long parked;

		while (unlikely(READ_ONCE(task->thread_info.flags) & OB_TIF_EXIT_WORK ||
				ob_pending())) {
			enum ob_exit exit = ob_leave_slow(result);

			if (exit != OB_EXIT_LEAVE)
				return exit == OB_EXIT_AGAIN;
			if (ob_only_interrupted(task))
				break;
		}
		vcpu = ob_this_vcpu();
		parked = ob_this_thread->parked;
		if (ob_others_wait())
			ob_check_request(vcpu);
		vcpu->leaves++;
		if (closed) {
			ob_this_thread->parked = 0;
			barrier();
		}
		ob_delay_point();
		ob_vcpu_check(vcpu, OB_VCPU_HELD, parked);
		xchg(&vcpu->state, parked);
		ob_delay_point();
		/* Never look at the task here: halt may have ended it already (V4). */
		if (likely(!READ_ONCE(vcpu->pending)))
			return false;
		if (!try_cmpxchg(&vcpu->state, &parked, OB_VCPU_HELD))
			return false;
		ob_vcpu_check(vcpu, parked, OB_VCPU_HELD);
		if (closed)
			ob_this_thread->parked = parked;
	}
}

/*
 * The booting thread is a task from now on, before other threads are let in. It is not counted,
 * since no halt can begin. If that fails, its first call tries again, and reports the reason.
 *
 * The fast path does not look at `ready`. A signal handler that interrupts the booting thread would
 * get in by it, and might wait for a host thread that the interrupted code is about to make. So
 * from the moment at which it leaves the kernel, the thread has no parked word until
 * ob_let_calls_in(): the handler's call takes the slow path, which refuses it.
 */
void ob_become_first_client(void)
{
	long result = 0;

	if (ob_enter_counted())
		return;
	while (ob_leave_fast(current, &result, true))
		;
}

/*
 * Opens the kernel. By the thread that called ob_become_first_client(), whose parked word comes
 * first: with `ready` set, the slow path would let in a handler whose thread has none.
 */
void ob_let_calls_in(void)
{
	barrier();
	ob_set_task(current);
	barrier();
	WRITE_ONCE(ob_machine.ready, 1);
}

/* Leaves the kernel. Returns `result`, or what replaces it. */
long ob_leave(long result)
{
	while (ob_leave_fast(current, &result, false))
		result = -EINTR;
	return result;
}

static __always_inline bool ob_is_restart(long result)
{
	return result <= -ERESTARTSYS && result >= -ERESTART_RESTARTBLOCK;
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
		if (unlikely(ob_is_restart(result))) {
			/*
			 * Nothing has interrupted it: its file system has ended the request, as
			 * umount(2) with MNT_FORCE has NFS do. No program knows such a number.
			 */
			if (!signal_pending(current))
				result = -EIO;
			else if (result == -ERESTART_RESTARTBLOCK)
				number = __NR_restart_syscall;
		}
	} while (unlikely(ob_leave_fast(current, &result, false)));
	return result;
}

/* Runs a function as a system call of the calling thread. Returns its result, or an error. */
long ob_call(long (*function)(void *argument), void *argument)
{
	int error = ob_enter();

	return error ? error : ob_leave(function(argument));
}

/* In transit, with the word `entering` set. */
static int ob_claim_counted(u32 number)
{
	int error;

	ob_thread_take();
	if (current)
		return -EBUSY;
	ob_this_thread->irqs_off = 1;
	barrier();
	error = ob_claim(number);
	barrier();
	ob_this_thread->irqs_off = 0;
	return error;
}

int ob_kernel_process_claim(uint32_t number)
{
	int error = ob_transit_begin();

	if (error)
		return error;
	if (ob_is_interrupted()) {
		ob_transit_end();
		return -EDEADLK;
	}
	ob_this_thread->entering = READ_ONCE(ob_boot);
	barrier();
	error = number ? ob_claim_counted(number) : -ESRCH;
	barrier();
	ob_this_thread->entering = 0;
	ob_transit_end();
	return error;
}

int ob_kernel_process_leave(void)
{
	int error = 0;

	if (ob_thread_is_known() && current)
		error = ob_enter();
	if (!error && ob_thread_is_known() && current)
		ob_task_exit();
	if (error && error != -ESRCH)
		return error;
	if (ob_thread_is_known() && ob_this_thread->kind == OB_THREAD_ENDED)
		ob_this_thread->kind = OB_THREAD_CLIENT;
	return 0;
}

/* A host thread ends, and its task with it. */
void ob_kernel_thread_exit(void)
{
	if (ob_thread_is_known() && current && ob_this_thread->kind == OB_THREAD_CLIENT &&
	    !ob_enter())
		ob_task_exit();
}

/* In the child of a fork, where only the calling host thread exists. */
void ob_kernel_forked(void)
{
	ob_machine.halting = 1;
	ob_machine.stopping = 1;
	ob_machine.gone = 1;
	ob_machine.ready = 0;
	ob_unbind();
}
