/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Types and functions that the files about spaces share.
 *
 * A space is a process without a program, the stub. It has nothing in its address space but what
 * the kernel shows there, and the platform's pages above SPACE_END:
 *
 *   process or thread   its code is at   does
 *   zygote, one for     ZYGOTE_CODE      makes stubs, sends them signals, and ends them
 *   each kernel
 *   mapper, one for     MAPPER_CODE      maps and unmaps; makes the user threads
 *   each stub
 *   user thread, one    THREAD_CODE      runs user code. It has no descriptor, and may make two
 *   for each vCPU                        system calls: futex and rt_sigreturn (filter.c)
 *
 * All run the code of stub.S. The zygote and the mappers take orders from lists that the platform
 * writes (orders.h), in pages that no user code can write. Zygote and mappers share descriptors.
 *
 * One file, the control file, has the pages of all stubs. The page at address a of space i is at
 * offset i * AREA_BYTES + a - SPACE_END. Space 0 is the zygote.
 *
 * A stub that is not needed any more waits for the next space.
 */
#ifndef OUTBOARD_POSIX_SPACE_SPACE_H
#define OUTBOARD_POSIX_SPACE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <outboard/hypercall_spaces.h>

#include "../internal.h"
#include "stub.h"

#define SPACE_END 0x7fffffc00000ull
/* The end of the addresses of a process. */
#define ADDRESS_END 0x7ffffffff000ull

#define ZYGOTE_CODE SPACE_END
#define MAPPER_CODE (SPACE_END + 0x10000)
#define ZYGOTE_DOOR (ZYGOTE_CODE + PAGE)
#define MAPPER_DOOR (MAPPER_CODE + PAGE)
/* Of the doors of the zygote and a mapper. */
#define DOOR_BYTES 0x7000
#define THREAD_CODE(vcpu) (FIRST_THREAD + (uint64_t)(vcpu) * THREAD_BYTES)
#define THREAD_DOOR(vcpu) (THREAD_CODE(vcpu) + PAGE)
#define THREAD_SLOT(vcpu) (THREAD_CODE(vcpu) + 2 * PAGE)
#define SLOT_BYTES (THREAD_BYTES - 2 * PAGE)

/* The host's own code that reads its clocks, and the pages from which that reads: clock.c. */
#define CLOCK_AREA (SPACE_END + 0x300000)
#define CLOCK_PAGES 64

#define AREA_BYTES (4ull << 20)
#define SPACES_MOST 4096u	/* with that of the zygote */
_Static_assert(FIRST_THREAD >= MAPPER_DOOR + DOOR_BYTES && FIRST_THREAD % THREAD_BYTES == 0,
	       "the mapper fits");
_Static_assert(THREAD_BYTES == 1 << THREAD_BITS, "a slot's number is found by a shift");
_Static_assert(THREAD_CODE(VCPUS_MOST) <= CLOCK_AREA, "threads fit");
_Static_assert(CLOCK_AREA + CLOCK_PAGES * PAGE <= SPACE_END + AREA_BYTES - PAGE, "clocks fit");

/* Descriptors of the zygote and the mappers. */
enum { FD_CHANNEL, FD_CONTROL, FD_CODE, FD_RAM, FD_HUGE };

/* Interrupts a user thread, whatever user code it runs. */
#define STUB_SIGNAL SIGUSR1

/* How long a side that waits spins. It skips waits after one that was in vain. */
struct ob_spinning {
	uint32_t skips;
	uint32_t reluctance;
};

/* A user thread. Only its vCPU uses it, but for `space` and `tid`. */
struct ob_space_thread {
	struct ob_space *space;
	char *door, *slot;
	uint32_t tid;		/* 0: there is no thread */
	uint32_t entry;		/* number of the last entry */
	uint32_t start;		/* number of the mapper's request that started it last */
	bool is_clean;		/* it has run no user code since it was made, or as good as new */
	bool is_entered;	/* its vCPU runs it, or is about to; atomic */
	bool is_still;		/* it is known to stand still, see still.c; atomic */
	uint32_t signals;	/* sent to it, or about to be; atomic */
	uint32_t woken;		/* `signals` after which it was woken from its sleep; atomic */
	uint32_t received;	/* `signals` after which it has stood still; atomic */
	uint32_t vain;		/* entries in a row that an interrupt ended where they had begun */
	bool has_called;	/* the last entry has ended with the call `call` by a jump */
	struct ob_spinning spinning;	/* of the thread in the stub */
	struct ob_space_registers call;
};

/* Pages that are shown with the same rights of the host. */
struct ob_space_run {
	uint64_t address, end;
	int protection;
	bool changes;		/* the host does not know these rights yet */
};

#define RUNS_MOST 512u

struct ob_space {
	uint32_t lock;		/* of what follows; atomic */
	bool is_used;		/* atomic */
	bool is_gone;		/* the stub is dead, or must not run; atomic */
	pid_t pid;		/* 0: there is no process */
	uint32_t index;
	uint32_t request;	/* number of the mapper's last one */
	uint32_t end;		/* of the mapper's list, an offset in its door */
	int processor;		/* the mapper runs on this one; -1: on any */
	/* Outside of this range, nothing is shown, nor will be when the list is carried out. */
	uint64_t shown, shown_end;
	uint64_t hidden, hidden_end;	/* what the list unmaps is inside of this range */
	struct ob_space_run runs[RUNS_MOST];	/* runs.c */
	uint32_t run_count;
	bool has_lost_runs;
	struct ob_space_thread threads[VCPUS_MOST];
};

/* Vector registers in the standard format of XSAVE; the most that fits into a slot. */
#define VECTOR_MOST 11648u
/* The legacy part and the header. */
#define VECTOR_LEAST 576u

struct ob_space_vcpu {
	_Alignas(64) char vector[VECTOR_MOST];	/* for the next entry */
	bool has_vector;
	struct ob_space_thread *running;	/* atomic */
	struct ob_space_thread *last;
	uint32_t is_wanted;			/* it is to be interrupted; atomic */
	uint32_t senders;			/* threads that may be sending signals; atomic */
	struct ob_spinning spinning;		/* of the vCPU's thread */
};

/* The mapper of a stub is moved only among the first ones. */
#define PROCESSORS_MOST 1024u

/* The state of one kernel's spaces. Memory that is never touched is never there. */
struct ob_spaces {
	char *control;		/* the control file, mapped */
	int channel;		/* to the zygote; -1: the zygote has ended */
	pid_t zygote;
	uint64_t clock;		/* address of the host's clock_gettime() in a stub; 0: none */
	bool has_huge;		/* the zygote has the file of huge pages (huge.c) */
	bool has_calls;		/* user code may make calls by a jump; atomic */
	bool can_spin;
	struct ob_spinning spinning;	/* of the thread that makes a space */
	char processors[PROCESSORS_MOST / 8];	/* of the thread that made the zygote */
	uint32_t lock;		/* of the zygote's commands; atomic */
	struct ob_space_vcpu vcpus[VCPUS_MOST];
	struct ob_space spaces[SPACES_MOST];
};

/* In the control file. */
static inline char *ob_space_page(struct ob_spaces *all, uint32_t index, uint64_t address)
{
	return all->control + index * AREA_BYTES + (address - SPACE_END);
}

static inline uint64_t ob_space_offset(uint32_t index, uint64_t address)
{
	return index * AREA_BYTES + (address - SPACE_END);
}

/* NULL if the kernel has not made that space. */
static inline struct ob_space *ob_space_find(struct ob_spaces *all, uint64_t space)
{
	if (!all || !space || space >= SPACES_MOST ||
	    !__atomic_load_n(&all->spaces[space].is_used, __ATOMIC_ACQUIRE))
		return NULL;
	return &all->spaces[space];
}

static inline uint32_t *ob_space_word(char *page, uint32_t offset)
{
	return (uint32_t *)(page + offset);
}

/*
 * enter.c: makes a user thread of a space that has ended as good as new. False: its stub is gone,
 * since it did not do as it should, or is stopped.
 */
bool ob_space_renew(struct ob_spaces *all, struct ob_space_thread *thread, uint32_t vcpu);

/* wait.c: locks that a caller holds with its interrupts off, or its signals blocked. */
void ob_space_lock(uint32_t *lock);
void ob_space_unlock(uint32_t *lock);
/* The time between two looks whether a process that does not answer lives. */
#define LOOK_NSEC 100000000ull

/*
 * How long a stub may take to obey. A host that is overloaded may give it no processor for seconds,
 * so the time counts in which the stub has run: a second, of all its threads. One that does not run
 * at all, as after a SIGSTOP, has half a minute. Begins zeroed.
 */
struct ob_space_budget {
	uint64_t own_end;		/* of its running time */
	uint64_t end;			/* of the monotonic clock; 0: it has not begun */
};

/* wait.c: the time that all threads of a process have run. 0: it has ended. */
uint64_t ob_space_running_time(pid_t pid);
/* wait.c: begins at the first call. False: the budget is used up. */
bool ob_space_budget_lasts(struct ob_space_budget *budget, pid_t pid);
/*
 * Waits until the word, which others may write, has the value. The other side wakes waiters: always
 * if `sleeps` is NULL, else while that word is not 0. False: the word has another value after
 * LOOK_NSEC. `spinning` NULL: the call does not spin.
 */
bool ob_space_await(struct ob_spaces *all, uint32_t *word, uint32_t value, uint32_t *sleeps,
		    struct ob_spinning *spinning);
/*
 * Waits until the thread, whose slot says that it sleeps, has begun to run user code a moment ago,
 * or has reported the end of its entry. False: neither in LOOK_NSEC.
 */
bool ob_space_begins(struct ob_space_thread *thread);
/* True: somebody has slept. */
bool ob_space_wake(uint32_t *word);
/*
 * still.c: whether the user thread of a vCPU stands still, and stays so until the next entry. A
 * thread that has reported the end of its entry may need a moment for this.
 */
bool ob_space_stands_still(struct ob_spaces *all, struct ob_space_thread *thread);
/* still.c: whether no signal to a thread that its vCPU does not run may still come. */
bool ob_space_is_quiet(struct ob_spaces *all, struct ob_space_thread *thread);
/* Sees to it that the thread is quiet soon. Call it again until it is. */
void ob_space_quieten(struct ob_spaces *all, struct ob_space_thread *thread);
/* Whether it is worth to spin for the next wait; and what the wait has shown. */
bool ob_spinning_is_useful(struct ob_spinning *spinning);
void ob_spinning_learn(struct ob_spinning *spinning, bool was_useful);

/*
 * zygote.c: starts the zygote. -EAGAIN, -ENOMEM. The thread's signals are blocked. `huge`: the file
 * with huge pages that RAM has or may take; -1: none.
 */
int ob_zygote_start(struct ob_host *host, int huge, struct ob_spaces *all);
/* clock.c: where clock_gettime() is in the code that the host gives to processes. 0: nowhere. */
uint64_t ob_clock_offset(void);
/* Ends it with all stubs, and waits for their end. Calls that are under way find them gone. */
void ob_zygote_end(struct ob_spaces *all);
/* Frees what belongs to it. There are no such calls any more. */
void ob_zygote_release(struct ob_spaces *all);
/*
 * Makes a process that runs the mapper's code with the door of this space. -EAGAIN, or -ESRCH: the
 * zygote has ended.
 */
int ob_zygote_fork(struct ob_spaces *all, uint32_t index, pid_t *pid);
/* Whether the process has ended. It is then reaped. */
bool ob_zygote_has_ended(struct ob_spaces *all, pid_t pid);
/* Ends the process. When this returns, it has no memory any more. */
void ob_zygote_kill(struct ob_spaces *all, pid_t pid);
/* Has the zygote send STUB_SIGNAL to the user thread of that vCPU. Any context. */
void ob_zygote_signal(struct ob_spaces *all, uint32_t vcpu, struct ob_space_thread *thread);
/* Nobody needs that signal any more. */
void ob_zygote_signal_over(struct ob_spaces *all, uint32_t vcpu);
/* The same. False: the zygote may be sending it just now. True: it does not send it later. */
bool ob_zygote_recall_signal(struct ob_spaces *all, uint32_t vcpu);

/* mapper.c: makes the process of a space, and a thread for vCPU 0. -EAGAIN, -ESRCH. */
int ob_mapper_start(struct ob_spaces *all, struct ob_space *space);
/*
 * Adds changes of mappings to the list. The stub makes them before user code enters. The space is
 * locked. `protection` is the host's.
 */
void ob_mapper_map(struct ob_spaces *all, struct ob_space *space, uint64_t address,
		   uint64_t size, int protection, int descriptor, uint64_t offset);
void ob_mapper_unmap(struct ob_spaces *all, struct ob_space *space, uint64_t address,
		     uint64_t size);
/* False: the platform cannot, and has changed nothing. */
bool ob_mapper_protect(struct ob_spaces *all, struct ob_space *space, uint64_t address,
		       uint64_t size, int protection);
/* Has the stub carry out the list now. False: the stub is gone. */
bool ob_mapper_flush(struct ob_spaces *all, struct ob_space *space);
/* Sleeps while the mapper carries out the request. May return early. */
void ob_mapper_await(struct ob_spaces *all, struct ob_space *space, uint32_t request);
/*
 * Whether the list is empty, and the last request carried out: waits for that, since it may be the
 * one with which another vCPU has started its thread. False, too: the stub is gone.
 */
bool ob_mapper_is_idle(struct ob_spaces *all, struct ob_space *space);
/* Has the stub carry out the list soon, and then write the word `state` of a user thread. */
void ob_mapper_start_thread(struct ob_spaces *all, struct ob_space *space, uint32_t vcpu,
			    uint32_t state);
/* Makes a user thread for the vCPU. False: the host has no room, or the stub is gone. */
bool ob_mapper_thread(struct ob_spaces *all, struct ob_space *space, uint32_t vcpu);
/* The stub does not do as it should: it ends, and is gone. */
void ob_mapper_kill(struct ob_spaces *all, struct ob_space *space);

/*
 * runs.c. The last function takes away rights that `protection` does not have, and marks the runs
 * that change. False, and nothing is done: not all runs are known, or one is in the range in part.
 */
void ob_runs_add(struct ob_space *space, uint64_t address, uint64_t end, int protection);
void ob_runs_remove(struct ob_space *space, uint64_t address, uint64_t end);
void ob_runs_clear(struct ob_space *space);
bool ob_runs_protect(struct ob_space *space, uint64_t address, uint64_t end, int protection);

/* How the zygote makes a stub, and a mapper a user thread. */
#define STUB_CLONE (CLONE_FILES | CLONE_PARENT_SETTID | SIGCHLD)
#define THREAD_CLONE (CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | \
		      CLONE_PARENT_SETTID)

/* filter.c: writes a filter (struct sock_fprog) to the page that is at `address` in the stub. */
void ob_filter_zygote(char *page, uint64_t address);
void ob_filter_mapper(char *page, uint64_t address);
void ob_filter_thread(char *page, uint64_t address, uint32_t vcpu);

/* frame.c */
/*
 * Learns how the host lays out signal frames, from one that is in the slot. False: in another way
 * than before, or unknown. One call at a time.
 */
bool ob_frame_learn(const char *slot);
/* The address in the stub of the vector registers in the host's frame, and which there are. */
uint64_t ob_frame_vector(uint32_t vcpu, uint64_t *features);
/* The vector registers of a new thread, for ob_frame_write(). */
const char *ob_frame_new_vector(void);
/* The slot of a thread that stands still becomes that of a new one. `done`: of its last entry. */
void ob_frame_reset(char *slot, uint32_t done);
/*
 * Registers for the next entry. `vector`: as many bytes as the host's frame has; NULL: the vector
 * registers stay as they are. `has_calls`: user code may make calls by a jump.
 */
void ob_frame_write(char *slot, uint32_t vcpu, const struct ob_space_registers *registers,
		    const char *vector, bool has_calls);
/* False: the entry has ended before user code went on; `registers` stay as they are. */
bool ob_frame_read(const char *slot, uint32_t vcpu, struct ob_space_registers *registers,
		   struct ob_space_event *event, bool has_calls);
/* Vector registers: what ob_host_space_vector() refuses; those of the thread. */
int ob_frame_check_vector(const void *area, uint64_t size);
void ob_frame_store_vector(const char *slot, void *area, uint64_t size);

extern const char ob_stub_code[], ob_stub_code_end[], ob_stub_start[], ob_stub_stop[],
	ob_stub_handler[], ob_stub_wake[], ob_stub_asleep[], ob_stub_return[], ob_stub_call[],
	ob_stub_call_swapped[], ob_stub_call_flags[], ob_stub_call_refused[],
	ob_stub_call_restored[], ob_stub_save[], ob_stub_save_sp[], ob_stub_save_end[],
	ob_stub_complete[]
	__attribute__((visibility("hidden")));

/* The address in a stub of a label of stub.S; `code`: where its code is. */
static inline uint64_t ob_stub_address(uint64_t code, const char *label)
{
	return code + (uint64_t)(label - ob_stub_code);
}

#endif
