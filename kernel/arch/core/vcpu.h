/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual CPUs.
 *
 * A vCPU is a token: a host thread runs kernel code only while it holds one (V2). The word `state`
 * of struct ob_vcpu says who has the vCPU. W is the word ob_parked(task).
 *
 *   name        state          what it means
 *   OFFLINE     0              the vCPU has not started
 *   HELD        HELD           a thread runs kernel code; or the vCPU idles, and idle.c says which
 *                              thread watches it; or a baton was passed, and the thread comes; or
 *                              the thread is in a program's user code, and `in_space` is set
 *   PARKED      W              the task's thread is out in host code
 *   MOVED       W | MOVED      the same, but the thread has to bind itself to the vCPU first
 *   ARRIVING    W | ARRIVING   the task is in the kernel; its thread gets its baton, and comes
 *   INTERRUPT   INTERRUPT      a thread takes interrupts as the parked task: parked.c
 *   STOPPED     STOPPED        this vCPU has halted the machine
 *
 *   from         to            by
 *   OFFLINE      HELD          ob_vcpu_start(); it stays so if the carrier could not be made
 *   PARKED       HELD          the task's thread enters: ob_enter(); or looks back after it left,
 *                              and a bit is pending: ob_leave()
 *   MOVED        HELD          the task's thread enters: ob_enter_known(), ob_arrive()
 *   ARRIVING     HELD          the task's thread comes: ob_arrive()
 *   these three  INTERRUPT     the service thread, for a pending bit or a check that is due. PARKED
 *                              and MOVED: also a client's thread that wants the vCPU
 *   INTERRUPT    as it was     the same thread has taken the interrupts
 *   INTERRUPT    HELD          the same thread evicts the task: ob_evict()
 *   HELD         PARKED        the holder leaves: ob_leave()
 *   HELD         ARRIVING      the holder switches to a client's task: ob_switch_end(),
 *                              ob_work_end()
 *   HELD         MOVED         the same, but the task's thread is out and did not ask for the task
 *   HELD         STOPPED       halt.c
 *
 * Interrupts are bits of the word `pending` (V5). A sender sets a bit, and makes sure that some
 * thread takes it. The sender itself never does.
 *
 *   the vCPU               what the sender does
 *   idles                  kicks the lent thread that watches it, or passes the carrier's baton:
 *                          ob_idle_end()
 *   KICKED (idle.c)        nothing: the lent thread or the carrier comes
 *   has `in_space` set     has the host end the entry: space_run.c
 *   parked, or INTERRUPT   notifies the service thread
 *   else HELD              nothing: the holder looks at its poll points
 *
 *   function      by                                    wakes a thread
 *   ob_raise()    any thread, with or without a vCPU    at once
 *   ob_send()     a thread that holds a vCPU            at once; but with interrupts off the first
 *                                                       wake-up is deferred until they are on, or
 *                                                       until the holder spins: ob_wake_deferred()
 *   ob_kick()     any thread that has set the bit, or   at once
 *                 found it set
 *
 * A sender sets the bit and then looks at the state. A thread that leaves or idles changes the
 * state and then looks at the bits. Full barriers between the two steps make one of them see the
 * other. They are virt_mb(), since SMP=n has several host threads, too.
 *
 * Other protocols: idle.c (idling and lending), baton.h (hand-over between host threads), evict.c
 * (the word `away`), gate.c (entry and exit), switch.c.
 */
#ifndef OUTBOARD_CORE_VCPU_H
#define OUTBOARD_CORE_VCPU_H

#include <linux/cache.h>
#include <linux/clockchips.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <asm/vcpu.h>
#include <outboard/hypercall.h>

enum ob_vcpu_state {
	OB_VCPU_OFFLINE = 0,
	OB_VCPU_PARKED = 1,		/* or'ed with the task's address and the boot's number */
	OB_VCPU_HELD = 2,
	OB_VCPU_INTERRUPT = 4,
	OB_VCPU_STOPPED = 8,
	/* With PARKED: another thread parked the vCPU, and the task's thread has to bind itself. */
	OB_VCPU_ARRIVING = 16,		/* the task is in the kernel, its thread comes */
	OB_VCPU_MOVED = 32,		/* the thread is out in host code */
};

enum ob_pending {
	OB_PENDING_TIMER = 1 << 0,
	OB_PENDING_RESCHEDULE = 1 << 1,
	OB_PENDING_CALL = 1 << 2,	/* smp_call_function */
	OB_PENDING_IRQ_WORK = 1 << 3,
	OB_PENDING_WAKE = 1 << 4,	/* evicted tasks want to run again */
	OB_PENDING_ADOPT = 1 << 5,	/* host threads want to become tasks, or have left theirs */
	OB_PENDING_DEVICE = 1 << 6,
	OB_PENDING_EVICT = 1 << 7,	/* the parked task must sleep: the machine is halting */
	OB_PENDING_STOP = 1 << 8,
	OB_PENDING_EINTR = 1 << 9,	/* calls are to end early */
	OB_PENDING_WAKE_HOST = 1 << 10,	/* ob_wake_deferred() */
	OB_PENDING_EXIT = 1 << 11,	/* a signal (V6) left exit work to a leaving thread */
};

/* What a thread that carries a vCPU goes on with, and the vCPU's carrier: carrier.c. */
struct ob_carrier {
	u32 baton;
	struct task_struct *to_run;	/* coroutine with which the carrier begins */
	struct task_struct *pass_to;	/* task that gets the vCPU next; NULL: the vCPU idles */
	void *context;			/* the own stack of a thread that is on a coroutine's */
	void *dead_stack;		/* of a coroutine that has ended: to be freed off it */
	u32 left;			/* word: 1 when the thread is about to end */
	u64 handle;
};

/* The service thread of a vCPU: service.c. */
struct ob_service {
	u32 word;			/* changes when the thread has to run again */
	u64 deadline;			/* of the clock event device; 0: none */
	u64 sleeps_until;
	u64 pending_since;		/* a holder takes no interrupts since; 0: none pends */
	u32 polls_seen;
	u64 kicked_since;		/* a lent thread has not come since; 0: it has */
	u32 kicks_seen;
	unsigned long leaves_at_tick;
	u64 check_at;			/* of a parked task that others wait for: parked.c */
	u64 check_pause;
	unsigned long leaves_at_check;
	u32 check_wanted;
	void *context;			/* the own stack of the thread that evicts */
	void *stack;			/* on which an evicted task goes to sleep */
	bool owes_carrier;		/* the thread has yet to make the carrier */
	u64 finish_at;			/* ob_host_snapshot_finish(); OB_FOREVER: done */
	u32 is_made;			/* some thread has made this one, or is about to */
	u32 left;			/* word: 1 when the thread is about to end */
	u64 handle;			/* 0: not started */
};

struct ob_vcpu {
	u32 pending;			/* first: asm/irqflags.h */
	u32 *watcher_baton;		/* of the thread that watches the idle vCPU: idle.c */
	u32 *kicked_baton;		/* of a lent thread that was kicked: idle.c */
	unsigned long state;
	unsigned long leaves;		/* how often clients left the kernel */
	unsigned long percpu_offset;
	u32 id;
	u32 polls;			/* how often interrupts were taken */
	bool kicked_while_awake;	/* the thread of `kicked_baton` was awake */
	u32 kicks;			/* how often a lent thread was kicked */
	u32 in_space;			/* the holder is in user code, or about to: space_run.c */
	u64 bound_thread;		/* number of the thread that was bound last; 0: none */
	struct task_struct *switched_from;	/* by the last switch: for schedule_tail() */
	struct task_struct *wake_list;	/* of evicted tasks: evict.c */
	struct task_struct *vectors_of;	/* whose registers the host has: space_vector.c */
	u32 *deferred_wake;		/* the holder owes a wake-up on this word: ob_send() */
	atomic_t requests;		/* of disks, submitted here and not complete */
	u64 devices[OB_INTERRUPTS / 64];	/* interrupts raised and not handled yet: irq.c */
	struct ob_carrier carrier;
	struct ob_service service;
	struct clock_event_device clock;
} ____cacheline_aligned;

extern struct ob_vcpu ob_vcpus[NR_CPUS];

/*
 * The number of this boot, which no other kernel of the process has, before or after. 0: there was
 * no boot; or the process is a copy of the one that booted (host.c). A thread's block has the
 * number, too: what another boot left in the block is void.
 *
 * Its lower half is not 0, and is in the upper bits of each parked word, where a task's address has
 * zeros. That is for a late thread: it has looked at its block, a halt and another boot overtake
 * it, and then comes its compare-and-swap. Another thread's vCPU may be parked on a task of the
 * same address, but the number differs. It repeats after 65,535 boots, in which the thread would
 * have to stay between two instructions.
 */
extern u32 ob_boot;
#define OB_PARKED_BOOT_SHIFT 48

static __always_inline unsigned long ob_parked(struct task_struct *task)
{
	return (unsigned long)task | OB_VCPU_PARKED |
	       (unsigned long)READ_ONCE(ob_boot) << OB_PARKED_BOOT_SHIFT;
}

/* Makes `task` the calling thread's. */
static __always_inline void ob_set_task(struct task_struct *task)
{
	ob_this_thread->parked = task ? ob_parked(task) : 0;
	WRITE_ONCE(ob_this_thread->task, task);
}

/* Whether the calling thread's block is of this kernel's boot. */
static __always_inline bool ob_thread_is_known(void)
{
	return ob_this_thread->boot == READ_ONCE(ob_boot);
}

/* The state words ARRIVING and MOVED. The fast path of an entry does not match them. */
static __always_inline unsigned long ob_arriving(struct task_struct *task)
{
	return ob_parked(task) | OB_VCPU_ARRIVING;
}

static __always_inline unsigned long ob_moved(struct task_struct *task)
{
	return ob_parked(task) | OB_VCPU_MOVED;
}

static __always_inline struct task_struct *ob_parked_task(unsigned long state)
{
	const unsigned long bits = OB_VCPU_PARKED | OB_VCPU_ARRIVING | OB_VCPU_MOVED;

	state &= (1UL << OB_PARKED_BOOT_SHIFT) - 1;
	return (struct task_struct *)(state & ~bits);
}

/* PARKED, MOVED or ARRIVING. */
static __always_inline bool ob_is_parked(unsigned long state)
{
	return state & OB_VCPU_PARKED;
}

void ob_bind(struct ob_vcpu *vcpu, struct task_struct *task, u64 host_thread);
void ob_unbind(void);
bool ob_client_is_in(void);
void ob_raise(struct ob_vcpu *vcpu, u32 bits);
void ob_kick(struct ob_vcpu *vcpu);
void ob_send(struct ob_vcpu *vcpu, u32 bits);
void ob_wake_deferred(void);
struct ob_vcpu *ob_vcpu_to_interrupt(void);
struct ob_vcpu *ob_vcpu_of_caller(void);
struct ob_vcpu *ob_vcpu_for_disks(void);

/*
 * After a stretch in which the calling thread ran as another task: restores `current`. `own`: the
 * thread's own task; NULL: it has none, and loses its vCPU, too.
 */
static __always_inline void ob_restore_current(struct task_struct *own)
{
	if (own)
		ob_set_task(own);
	else
		ob_unbind();
	WRITE_ONCE(ob_this_thread->loan, NULL);
}

#endif
