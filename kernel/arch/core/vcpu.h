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
 *                              thread watches it; or a baton was passed, and the thread comes
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
#include <asm/host.h>
#include <asm/vcpu.h>

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

/*
 * Why a task cannot go on when its thread enters: evict.c. OUT, ARRIVING or WORKING, possibly with
 * WANTED.
 */
enum ob_away {
	OB_AWAY_OUT = 1,		/* it sleeps: its thread is out in host code */
	OB_AWAY_ARRIVING = 2,		/* it sleeps: evicted in the state ARRIVING, baton passed */
	OB_AWAY_WORKING = 4,		/* it does exit work as a coroutine: work.c */
	OB_AWAY_WANTED = 8,		/* its thread waits for the task's baton */
};

enum ob_pending {
	OB_PENDING_TIMER = 1 << 0,
	OB_PENDING_RESCHEDULE = 1 << 1,
	OB_PENDING_CALL = 1 << 2,	/* smp_call_function */
	OB_PENDING_IRQ_WORK = 1 << 3,
	OB_PENDING_WAKE = 1 << 4,	/* evicted tasks want to run again */
	OB_PENDING_ADOPT = 1 << 5,	/* host threads want to become tasks */
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
	u64 bound_thread;		/* number of the thread that was bound last; 0: none */
	struct task_struct *switched_from;	/* by the last switch: for schedule_tail() */
	struct task_struct *wake_list;	/* of evicted tasks: evict.c */
	u32 *deferred_wake;		/* the holder owes a wake-up on this word: ob_send() */
	atomic_t requests;		/* of disks, submitted here and not complete */
	u64 devices[OB_INTERRUPTS / 64];	/* interrupts raised and not handled yet: irq.c */
	struct ob_carrier carrier;
	struct ob_service service;
	struct clock_event_device clock;
} ____cacheline_aligned;

enum ob_panicking {
	OB_PANIC_BEGUN = 1,		/* no disk is written to any more */
	OB_PANIC_REPORTED = 2,		/* the host goes on, without this kernel's threads */
};

struct ob_boot_parameters;

extern struct ob_vcpu ob_vcpus[NR_CPUS];

/* The state of the whole kernel. */
struct ob_machine {
	u32 ready;			/* word: system calls can be made */
	u32 halting;
	u32 stopping;
	u32 gone;			/* the memory is released, or another process has it */
	u32 panicking;			/* enum ob_panicking */
	u32 booted;			/* 1 from the start of the only boot */
	u32 vcpus;
	int spinners_max;		/* how many threads may spin at a time: spin.c */
	atomic_t spinners;
	int console_level;
	u64 memory;			/* ceiling */
	bool ram_is_pinned;		/* OB_HOST_RAM_IS_PINNED */
	bool ram_is_executable;		/* OB_HOST_RAM_IS_EXECUTABLE */
	u64 clock_offset;		/* the host's monotonic clock minus ours */
	u64 boot_time;			/* of our clock */
	u64 saved_time;			/* of our clock, when a snapshot was taken */
	const char *command_line;
	const char *components;		/* to be loaded before the first call */
	int components_error;
	u32 spare_interfaces;		/* that a snapshot has in advance */
	u32 snapshot;			/* the kernel is to be saved: snapshot.c */
	u32 prepared;			/* word: the kernel can be saved now */
	u32 renew;			/* word: 1 until the leader has renewed what must differ */
	struct task_struct *leader;	/* of the process that local clients are threads of */
};
extern struct ob_machine ob_machine;

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

/* vcpu.c */
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

/* How long a lent thread that was kicked may stay away (idle.c, L4). In nanoseconds. */
#define OB_KICK_OLD ((u64)NSEC_PER_MSEC)

/* baton.c: also baton.h */
void ob_baton_pass(u32 *baton);
void ob_baton_wait(u32 *baton);

/* spin.c */
void ob_spin_for_bits(const u32 *word, u32 bits);

/* interrupt.c */
void ob_interrupts_run(bool user);

/* coroutine.c */
void *ob_stack_alloc(void);
void ob_stack_free(void *stack);
void *ob_coroutine_prepare(void *stack, void (*entry)(void));
void ob_coroutine_switch(void **save, void *load);

/* switch.c */
void ob_switch_finished(void);
bool ob_pass_to(struct ob_vcpu *vcpu, struct task_struct *next, const u32 *own);
bool ob_arrive(struct task_struct *task, bool switched);

/* carrier.c */
struct task_struct *ob_carry(struct ob_vcpu *vcpu, struct task_struct *first, bool lent);
int ob_carrier_start(struct ob_vcpu *vcpu);
int ob_vcpu_start(struct ob_vcpu *vcpu, struct task_struct *first);
bool ob_is_on_coroutine(void);
void __noreturn ob_carrier_leave(void);

/* idle.c */
u32 *ob_idle_end(struct ob_vcpu *vcpu);
void ob_idle_begin(struct ob_vcpu *vcpu, u32 *baton);
bool ob_idle_take(struct ob_vcpu *vcpu);
void ob_idle_await(struct ob_vcpu *vcpu, u32 *baton, u32 bits);
u64 ob_watch_kicked(struct ob_vcpu *vcpu, u64 now);
bool ob_lend(struct ob_vcpu *vcpu, u32 *baton);
void ob_pass_or_idle(struct ob_vcpu *vcpu, struct task_struct *next);
void ob_give_up(struct ob_vcpu *vcpu);
bool ob_give_up_and_wait(struct ob_vcpu *vcpu, u32 *baton);
void ob_carry_without_task(struct ob_vcpu *vcpu);
bool ob_raise_and_wait(struct ob_vcpu *vcpu, u32 bits, u32 *baton);

/* parked.c */
void ob_parked_service(struct ob_vcpu *vcpu);
void ob_check_request(struct ob_vcpu *vcpu);
bool ob_evict_by_client(struct ob_vcpu *vcpu);
bool ob_check_is_due(struct ob_vcpu *vcpu, u64 now);
void ob_check_plan(struct ob_vcpu *vcpu, u64 now);

/* evict.c */
struct ob_vcpu *ob_wake_list_add(struct task_struct *task);
void ob_evict(struct ob_vcpu *vcpu, struct task_struct *task, enum ob_away why);
bool ob_evicted_wake_and_wait(struct task_struct *task);
bool ob_task_end_evicted(struct task_struct *task);

/* halt.c: the calling thread of the kernel is about to end. `left`: its own word. */
void ob_thread_leaves(u32 *left);
void ob_abandon(void);

/* service.c */
int ob_service_start(struct ob_vcpu *vcpu);
void ob_service_start_now(struct ob_vcpu *vcpu);
void ob_service_stop(struct ob_vcpu *vcpu);
void ob_service_end(struct ob_vcpu *vcpu);
u32 *ob_service_raise(struct ob_vcpu *vcpu);
void ob_service_notify(struct ob_vcpu *vcpu);

/*
 * Before the calling thread needs another thread of the vCPU: makes the service thread if it is not
 * made yet.
 */
static inline void ob_service_needed(struct ob_vcpu *vcpu)
{
	if (unlikely(vcpu->service.owes_carrier) && !READ_ONCE(vcpu->service.is_made))
		ob_service_start_now(vcpu);
}

/* boot.c */
void ob_configure(const struct ob_boot_parameters *parameters, const struct ob_info *info);

/* time.c, smp.c */
u64 ob_clock(void);
void ob_timer_start(void);
void ob_timer_expire(struct ob_vcpu *vcpu, u64 now);
void ob_secondary_start(void);
void ob_calls_run(void);

/* thread.c */
int ob_adopt(void);
void ob_adoptions_wake(void);
int ob_leader_main(void *unused);
void ob_task_exit(void);

/* gate.c */
void ob_thread_begin(enum ob_thread_kind kind);
int ob_transit_begin(void);
void ob_transit_begin_exit(void);
void ob_transit_end(void);
unsigned int ob_transit_count(void);
int ob_enter(void);
int ob_enter_again(unsigned long parked, u32 boot);
long ob_leave(long result);
void ob_become_first_client(void);
void ob_let_calls_in(void);
long ob_call(long (*function)(void *argument), void *argument);

/* work.c */
void ob_work_begin(struct task_struct *task);
void ob_work_note(struct ob_vcpu *vcpu, struct task_struct *task);
void ob_work_end(struct ob_vcpu *vcpu, struct task_struct *task);

/* eintr.c */
void ob_eintr_run(void);

/* mmu.c, fault.c */
struct mm_struct;
int ob_client_fault(const struct ob_fault *fault, bool user);
bool ob_client_is_untouched(struct mm_struct *mm, unsigned long address);
void ob_client_refill_begin(void);
int ob_client_refill(struct mm_struct *mm, unsigned long address);
#ifdef CONFIG_MMU
bool ob_kernel_fill(const struct ob_fault *fault);
#else
static inline bool ob_kernel_fill(const struct ob_fault *fault)
{
	return false;
}
#endif

/* init.c */
void __noreturn ob_init_main(void);
void ob_device_node(const char *name, umode_t type, dev_t device);

/* component.c */
int ob_components_load(const char *names);

/* unpack.c */
bool ob_is_packed(const void *image, u64 size);
/* Returns a new image, for kvfree(), and its size; or an ERR_PTR(). */
void *ob_unpack(const void *image, u64 *size);

/* panic.c */
void ob_panic_setup(void);
void ob_panic_check(void);
void __noreturn ob_die(const char *what, const struct ob_fault *fault);

#endif
