/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual CPUs.
 *
 * A vCPU is a token. Kernel code runs only on a host thread that holds one (V2). Three words of
 * struct ob_vcpu say who has it: `state`, `idle` and `kicked`. The last two name batons; -: NULL.
 * W is the word ob_parked(task).
 *
 *   name          state         idle        kicked      what it means
 *   HELD          HELD          -           -           a thread runs kernel code, or the vCPU is
 *                                                       on its way to a thread whose baton was
 *                                                       passed
 *   IDLE-CARRIER  HELD          carrier's   -           the idle coroutine rests, the carrier
 *                                                       watches it
 *   IDLE-LENT     HELD          a client's  -           the same, a client's thread watches it
 *                                                       (L4)
 *   KICKED        HELD          -           a client's  that thread was called to carry the vCPU
 *   PARKED        W             -           -           the task's thread is out in host code
 *   MOVED         W | MOVED     -           -           the same, but the thread has to bind
 *                                                       itself
 *   ARRIVING      W | ARRIVING  -           -           the task is in the kernel, its thread was
 *                                                       called
 *   INTERRUPT     INTERRUPT     -           -           the service thread runs interrupts as the
 *                                                       task, or a client's thread that wants
 *                                                       the vCPU: ob_service_replace()
 *
 *   from          to            by
 *   PARKED        HELD          the task's thread: ob_enter(); also ob_leave(), if a bit is
 *                               pending
 *   MOVED         HELD          the task's thread: ob_enter_known(), ob_arrive()
 *   ARRIVING      HELD          the task's thread: ob_arrive()
 *   any of these  INTERRUPT     the service thread, if a bit is pending or a look is due;
 *                               not of ARRIVING: a client's thread that wants the vCPU
 *   INTERRUPT     the same      the same thread, when it is done: the word that it found
 *   INTERRUPT     HELD          the same thread evicts the task (V8)
 *   HELD          PARKED        the holder leaves: ob_leave()
 *   HELD          ARRIVING      the holder switches to a client's task: ob_switch_end(),
 *                               ob_work_end()
 *   HELD          MOVED         the same, but the task's thread is out and has not asked for the
 *                               task
 *   HELD          IDLE-*        the holder has left the idle coroutine: ob_idle_begin()
 *   IDLE-CARRIER  HELD          a bit is set: ob_idle_end() passes the carrier's baton; or a
 *                               thread takes the vCPU for itself: ob_idle_take()
 *   IDLE-LENT     KICKED        a bit is set: ob_idle_end()
 *   IDLE-LENT     IDLE-CARRIER  the client's baton was passed: the thread is called back,
 *                               ob_idle_watch()
 *   KICKED        HELD          the lent thread comes; or the carrier, if the lent thread does not
 *                               come for a millisecond, or has been called back
 *
 * A vCPU begins as OFFLINE and is HELD when it starts. The one that halts the machine ends as
 * STOPPED.
 *
 * Interrupts are bits of the pending word (V5). The sender makes sure that they are seen: it ends
 * the idling of a vCPU, or notifies the service thread of a parked one; a holder looks by itself.
 * Setting a bit and looking at the state, and leaving and looking at the bits, are ordered by full
 * barriers on both sides, so that one of the two always sees the other. They are between host
 * threads: virt_mb(), which SMP=n leaves in.
 *
 * The word `evicted` of a client's task says why its thread cannot go on when it enters. Its bits
 * are those of enum ob_evicted.
 *
 *   evicted           to                 by               what it means
 *   0                 OUT, ARRIVING      ob_evict()       the task runs, sleeps in a call, or a
 *                                                         vCPU is parked on it
 *   OUT               OUT | WANTED       ob_come_back()   it sleeps, its thread is out
 *                     WORKING            ob_work_begin()  - it is switched to
 *                     0                  ob_pass_to()     - the same, without a stack: the vCPU is
 *                                                         MOVED
 *   ARRIVING          ARRIVING | WANTED  ob_come_back()   it sleeps in the kernel, its thread did
 *                                                         not come
 *                     0                  ob_switch_end()  - it is switched to: the vCPU is
 *                                                         ARRIVING
 *   either | WANTED   0                  ob_switch_end()  its thread waits for the baton; the vCPU
 *                                                         is ARRIVING
 *   WORKING           WORKING | WANTED   ob_come_back()   it does exit work as a coroutine
 *                     0                  ob_work_end()    - the work is done: the vCPU is MOVED
 *   WORKING | WANTED  0                  ob_work_end()    its thread waits; the vCPU is ARRIVING
 *                                                         then
 *
 * A thread that has switched to its own task (ob_lend()) holds the vCPU already: ob_arrive() clears
 * the word. Halt ends a task that is OUT as a coroutine, in the place of its thread.
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
	/* With PARKED: the task's thread did not park the vCPU, and has to bind itself to it first. */
	OB_VCPU_ARRIVING = 16,		/* the task is in the kernel, its thread was called */
	OB_VCPU_MOVED = 32,		/* the thread is out in host code */
};

/* Why a task cannot go on when its thread enters. Bits: one of the first three, and the last. */
enum ob_evicted {
	OB_EVICTED_OUT = 1,		/* it sleeps: its thread is out in host code */
	OB_EVICTED_ARRIVING = 2,	/* it sleeps in the kernel: its thread did not come for it */
	OB_EVICTED_WORKING = 4,		/* it does exit work as a coroutine: core/work.c */
	OB_EVICTED_WANTED = 8,		/* its thread waits for the task's baton */
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
	OB_PENDING_WAKE_HOST = 1 << 10,	/* ob_wake_now() */
	OB_PENDING_EXIT = 1 << 11,	/* a signal (V6) has left exit work to a thread on its way out */
};

/* Who runs a vCPU's coroutines, and the host thread that does it when nobody else does. core/switch.c */
struct ob_carrier {
	u32 baton;
	struct task_struct *run;	/* coroutine that the thread goes on with */
	struct task_struct *pass_to;	/* task that gets the vCPU next; NULL: the vCPU idles */
	void *context;			/* the own stack of the thread that is on a coroutine's */
	void *dead_stack;		/* of a coroutine that has ended: free it after leaving it */
	u64 handle;
};

/* The host thread that is a vCPU's timer and looks after it while it is parked. core/service.c */
struct ob_service {
	u32 word;			/* changes when there is something to look at */
	u64 deadline;			/* of the clock event device; 0: none */
	u64 sleeps_until;
	u64 pending_since;		/* a holder has bits pending since then, and took none; 0: it has not */
	u32 polls_seen;
	u64 kicked_since;		/* a lent thread was kicked by then, and has not come; 0: it has */
	u32 kicks_seen;
	unsigned long entries_seen;
	u64 look_at;			/* again at a parked task that others wait for; 0: none do */
	u64 look_pause;
	unsigned long look_entries;
	u32 look_wanted;
	void *context;
	void *stack;			/* for evicting a task */
	bool starts_carrier;		/* that is left to the thread */
	u64 finish_at;			/* what a snapshot has left for later; OB_FOREVER: it is done */
	u32 is_made;			/* some thread has made it, or is about to */
	u64 handle;			/* 0: not started */
};

/* Bits of a baton. */
enum ob_baton {
	OB_BATON_PASSED = 1,		/* a vCPU is the thread's, for its own task */
	OB_BATON_KICKED = 2,		/* the idle vCPU that the thread looks after has something to do */
	OB_BATON_AWAITED = 4,		/* the thread sleeps on the word */
};

struct ob_vcpu {
	u32 pending;			/* first: asm/irqflags.h */
	u32 *idle;			/* baton of who looks after the vCPU, while it idles; NULL: it does not */
	u32 *kicked;			/* baton of a lent thread that shall carry on; NULL: it does, or none shall */
	unsigned long state;
	unsigned long entries;		/* times that a client entered and left */
	unsigned long percpu_offset;
	u32 id;
	u32 polls;			/* how often interrupts were taken */
	bool kicked_awake;		/* the thread of `kicked` was not asleep, so nobody has woken it */
	u32 kicks;			/* how often a lent thread was kicked */
	u64 holder;			/* host thread that was bound last */
	struct task_struct *switched_from;
	struct task_struct *wake_list;
	u32 *wake_later;		/* a host thread sleeps on this word */
	atomic_t requests;		/* of disks, submitted here and not complete */
	u64 devices[OB_INTERRUPTS / 64];	/* interrupts raised and not handled yet: irq.c */
	struct ob_carrier carrier;
	struct ob_service service;
	struct clock_event_device clock;
} ____cacheline_aligned;

enum ob_panicking {
	OB_PANIC_BEGUN = 1,		/* no disk is written to any more */
	OB_PANIC_REPORTED = 2,		/* the host goes on without this kernel: its threads stay where they are */
};

struct ob_boot_parameters;

extern struct ob_vcpu ob_vcpus[NR_CPUS];

/* What there is one of. */
struct ob_machine {
	u32 ready;			/* word: system calls can be made */
	u32 halting;
	u32 stopping;
	u32 panicking;			/* enum ob_panicking */
	u32 booted;			/* 1 from the start of the only boot */
	u32 vcpus;
	int spinners_max;		/* host threads that may spin at a time: 0 if they could only take time from each other */
	atomic_t spinners;
	int console_level;
	u64 memory;			/* ceiling */
	bool ram_is_pinned;		/* OB_HOST_RAM_IS_PINNED */
	bool ram_is_executable;		/* OB_HOST_RAM_IS_EXECUTABLE */
	u64 clock_offset;		/* what the host's monotonic clock is ahead of ours */
	u64 boot_time;			/* of our clock */
	u64 saved_time;			/* of our clock, when a snapshot was taken */
	const char *command_line;
	const char *components;		/* to be loaded before the first call */
	int components_error;
	u32 snapshot;			/* one is to be taken: snapshot.c */
	u32 prepared;			/* word: all that comes before that is done */
	u32 renew;			/* word: 1 until the leader has renewed what must differ */
	struct task_struct *leader;	/* of the process that local clients are threads of */
};
extern struct ob_machine ob_machine;

/*
 * The number of this boot: no other kernel that uses the same threads' blocks has the same. Its lower half, which
 * is not 0, is in the upper bits of each parked word, where addresses of tasks are zero. So a thread that is
 * overtaken by a halt and another boot between looking at its block and the compare-and-swap does not
 * take another thread's vCPU, whose task may have the old one's address.
 */
extern u32 ob_boot;
#define OB_PARKED_BOOT_SHIFT 48

static __always_inline unsigned long ob_parked(struct task_struct *task)
{
	return (unsigned long)task | OB_VCPU_PARKED |
	       (unsigned long)READ_ONCE(ob_boot) << OB_PARKED_BOOT_SHIFT;
}

static __always_inline bool ob_is_of_this_boot(unsigned long parked)
{
	return parked >> OB_PARKED_BOOT_SHIFT == (u16)READ_ONCE(ob_boot);
}

/* The calling thread's task is that one from now on. */
static __always_inline void ob_set_task(struct task_struct *task)
{
	ob_this_thread->parked = task ? ob_parked(task) : 0;
	WRITE_ONCE(ob_this_thread->task, task);
}

/* Does the calling thread's block say anything of this kernel? */
static __always_inline bool ob_thread_is_known(void)
{
	return ob_this_thread->boot == READ_ONCE(ob_boot);
}

/* Its bits are not those of an entry: the fast path leaves it alone. */
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

static __always_inline bool ob_is_parked(unsigned long state)
{
	return state & OB_VCPU_PARKED;
}

/* vcpu.c */
void ob_bind(struct ob_vcpu *vcpu, struct task_struct *task, u64 holder);
void ob_unbind(void);
bool ob_client_is_in(void);
void ob_raise(struct ob_vcpu *vcpu, u32 bits);
void ob_kick(struct ob_vcpu *vcpu);
void ob_send(struct ob_vcpu *vcpu, u32 bits);
void ob_wake_now(void);
bool ob_raise_and_wait(struct ob_vcpu *vcpu, u32 bits, u32 *baton);
struct ob_vcpu *ob_vcpu_to_interrupt(void);
struct ob_vcpu *ob_vcpu_for_disks(void);
void ob_baton_pass(u32 *baton);
void ob_baton_wait(u32 *baton);
void ob_idle_begin(struct ob_vcpu *vcpu, u32 *baton);
bool ob_idle_watch(struct ob_vcpu *vcpu, u32 *baton);
bool ob_idle_take(struct ob_vcpu *vcpu);
bool ob_idle_take_from(struct ob_vcpu *vcpu, u32 *baton);
void ob_idle_await(struct ob_vcpu *vcpu, u32 *baton, u32 bits);
void ob_timer_expire(struct ob_vcpu *vcpu, u64 now);

/* interrupt.c */
void ob_interrupts_run(bool user);

/* coroutine.c */
void *ob_stack_alloc(void);
void ob_stack_free(void *stack);
void *ob_coroutine_prepare(void *stack, void (*entry)(void));
void ob_coroutine_switch(void **save, void *load);

/* switch.c */
void ob_carry_on(struct ob_vcpu *vcpu);
int ob_carrier_start(struct ob_vcpu *vcpu);
int ob_vcpu_start(struct ob_vcpu *vcpu, struct task_struct *first);
bool ob_is_carrying(void);
void __noreturn ob_carrier_leave(void);
void ob_switch_finished(void);
void ob_give_up(struct ob_vcpu *vcpu);
bool ob_give_up_and_wait(struct ob_vcpu *vcpu, u32 *baton);
bool ob_lend(struct ob_vcpu *vcpu, u32 *baton);
bool ob_arrive(struct task_struct *task, bool switched);

/* service.c */
int ob_service_start(struct ob_vcpu *vcpu);
void ob_service_start_now(struct ob_vcpu *vcpu);

/* Before the calling thread has another one do something for the vCPU: does the vCPU have its threads yet? */
static inline void ob_service_needed(struct ob_vcpu *vcpu)
{
	if (unlikely(vcpu->service.starts_carrier) && !READ_ONCE(vcpu->service.is_made))
		ob_service_start_now(vcpu);
}
void ob_service_stop(struct ob_vcpu *vcpu);
void ob_service_end(struct ob_vcpu *vcpu);
u32 *ob_service_raise(struct ob_vcpu *vcpu);
void ob_service_notify(struct ob_vcpu *vcpu);
void ob_service_look(struct ob_vcpu *vcpu);
bool ob_service_replace(struct ob_vcpu *vcpu);

/* boot.c */
void ob_configure(const struct ob_boot_parameters *parameters, const struct ob_info *info);

/* time.c, smp.c */
u64 ob_clock(void);
void ob_timer_start(void);
void ob_secondary_start(void);
void ob_calls_run(void);

/* thread.c */
int ob_adopt(void);
void ob_adoptions_wake(void);
int ob_leader_main(void *unused);
void ob_task_exit(void);
bool ob_task_end_evicted(struct task_struct *task);

/* gate.c */
void ob_thread_begin(enum ob_thread_kind kind);
int ob_transit_begin(void);
void ob_transit_begin_exit(void);
void ob_transit_end(void);
unsigned int ob_transit_count(void);
int ob_enter(void);
int ob_enter_again(unsigned long parked);
long ob_leave(long result);
void ob_become_client(void);
void ob_become_first_client(void);
long ob_call(long (*function)(void *argument), void *argument);

/* work.c */
struct ob_vcpu *ob_work_ask(struct task_struct *task);
void ob_work_begin(struct task_struct *task);
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

/* panic.c */
void ob_panic_setup(void);
void ob_panic_check(void);
void __noreturn ob_die(const char *what, const struct ob_fault *fault);

#endif
