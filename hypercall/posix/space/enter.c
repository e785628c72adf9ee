// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs user code on a vCPU, and interrupts it.
 *
 *   vCPU's thread                                  user thread of that vCPU in the stub
 *   writes the frame; state = n << 1 | 1, wake     waits for `state` (stub.S)
 *   (the mapper does this if its list has orders)  rt_sigreturn: user code, until a signal
 *   waits for `done`                               done = n, wake; waits for `state`
 *   state = n << 1; reads the frame
 *
 * User code that makes a call by a jump (stub.S) does without the host's signal. If only the result
 * of the call is new, the thread returns by a jump, too: DOOR_JUMPS.
 *
 * An interrupt is a signal to the user thread. A request that comes while no entry is in progress
 * ends the next one: `is_wanted` is set first, then `running` is read; an entry sets `running`
 * first, then reads `is_wanted`. User code can block the signal, by an rt_sigreturn of its own. So
 * a stub that does not come out in time is killed.
 *
 * On an overloaded host the signal can come before the user thread has got a processor, each time
 * anew. So after some such entries in a row, one is let begin: it sets `running` late.
 *
 * User code can also report the end of its entry and run on. Nothing that matters relies on this
 * report (space.c). When an interrupt was wanted or a signal may still come, before the vCPU runs
 * another thread, and before the vCPU's own thread sleeps, the user thread must stand still
 * (invariant V18, still.c). Else it is interrupted, and if that does not help, its stub is killed.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "../raw.h"
#include "space.h"

/* Iterations of the stub, which cannot read a clock: about as long as wait.c spins. */
#define STUB_SPINS 1000

/* Turns of a wait, each a call of the host, before the vCPU's thread sleeps between them. */
#define TURNS_AWAKE 50
#define MOMENT_NSEC 50000

/* The longest time between two signals to a thread that does not come to rest. */
#define PAUSE_MOST (16 * LOOK_NSEC)

/* Vain entries in a row after which one is let begin, and those that still lengthen the wait. */
#define VAIN_MOST 4u
#define MORE_MOST 5u

/* Of the calling thread: the vCPU that it has run since it slept last, and 1. 0: none. */
static __thread uint32_t has_run __attribute__((tls_model("initial-exec")));

static struct ob_space_vcpu *vcpu_of(struct ob_spaces *all, uint32_t vcpu)
{
	return all && vcpu < VCPUS_MOST ? &all->vcpus[vcpu] : NULL;
}

/* Makes the thread, and locks the space. False: the stub is gone, or gets no thread. */
static bool prepare(struct ob_spaces *all, struct ob_space *space, uint32_t vcpu)
{
	struct ob_space_thread *thread = &space->threads[vcpu];

	ob_space_lock(&space->lock);
	if (!__atomic_load_n(&space->is_gone, __ATOMIC_SEQ_CST) &&
	    (thread->tid || ob_mapper_thread(all, space, vcpu))) {
		__atomic_store_n(&thread->is_entered, true, __ATOMIC_SEQ_CST);
		return true;
	}
	ob_space_unlock(&space->lock);
	return false;
}

/*
 * Whether user code goes on just behind its call by a jump: then the thread returns by a jump, too,
 * and not by rt_sigreturn. Only the result may differ.
 */
static bool returns_from_call(const struct ob_space_vcpu *vcpu,
			      const struct ob_space_thread *thread,
			      const struct ob_space_registers *registers)
{
	return thread->has_called && vcpu->last == thread && !vcpu->has_vector &&
	       !memcmp(&registers->bx, &thread->call.bx,
		       sizeof(*registers) - offsetof(struct ob_space_registers, bx));
}

/* The door is no place for registers of a program that may have ended. */
static void write_door(struct ob_space_thread *thread, uint32_t vcpu,
		       const struct ob_space_registers *back)
{
	static const struct ob_space_registers none;
	char *door = thread->door;

	*ob_space_word(door, DOOR_JUMPS) = back != NULL;
	back = back ? back : &none;
	*(uint64_t *)(door + DOOR_AX) = back->ax;
	*(uint64_t *)(door + DOOR_BACK) = back->ip;
	*(uint64_t *)(door + DOOR_FLAGS) = back->flags;
	*(uint64_t *)(door + DOOR_FRAME) = THREAD_SLOT(vcpu) + SLOT_PREPARED;
	*(uint64_t *)(door + DOOR_VECTOR) =
		ob_frame_vector(vcpu, (uint64_t *)(door + DOOR_FEATURES));
}

/* The thread may have been interrupted after its call: so the frame is always written. */
static void write_registers(struct ob_spaces *all, struct ob_space_vcpu *vcpu,
			    struct ob_space_thread *thread, uint32_t number,
			    const struct ob_space_registers *registers)
{
	const bool returns = returns_from_call(vcpu, thread, registers);

	write_door(thread, number, returns ? registers : NULL);
	ob_frame_write(thread->slot, number, registers, vcpu->has_vector ? vcpu->vector : NULL,
		       __atomic_load_n(&all->has_calls, __ATOMIC_ACQUIRE));
	thread->has_called = false;
	vcpu->has_vector = false;
	vcpu->last = thread;
	thread->is_clean = false;
}

/* Runs the thread. If changes of mappings wait, the mapper makes them, and runs it after that. */
static void start_thread(struct ob_spaces *all, struct ob_space_thread *thread, uint32_t vcpu)
{
	uint32_t *state = ob_space_word(thread->door, DOOR_STATE);
	bool sleeps = __atomic_load_n(ob_space_word(thread->slot, SLOT_SLEEPS), __ATOMIC_RELAXED);

	if (all->can_spin) {
		ob_spinning_learn(&thread->spinning, !sleeps);
		*ob_space_word(thread->door, DOOR_SPINS) =
			ob_spinning_is_useful(&thread->spinning) ? STUB_SPINS : 0;
	}
	/* The thread clears this when it goes on. */
	if (thread->vain)
		__atomic_store_n(ob_space_word(thread->slot, SLOT_SLEEPS), 1, __ATOMIC_SEQ_CST);
	thread->entry++;
	__atomic_store_n(&thread->is_still, false, __ATOMIC_SEQ_CST);
	if (!ob_mapper_is_idle(all, thread->space)) {
		ob_mapper_start_thread(all, thread->space, vcpu, thread->entry << 1 | 1);
		thread->start = thread->space->request;
		return;
	}
	__atomic_store_n(state, thread->entry << 1 | 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(ob_space_word(thread->slot, SLOT_SLEEPS), __ATOMIC_SEQ_CST))
		ob_space_wake(state);
}

/* Whether the stub may go on, after it has not come out for a while. `wanted`: atomic. */
static bool look(struct ob_spaces *all, struct ob_space_thread *thread, uint32_t vcpu,
		 const uint32_t *wanted, struct ob_space_budget *budget)
{
	struct ob_space *space = thread->space;
	bool lives = true;

	ob_space_lock(&space->lock);
	if (!space->pid || ob_zygote_has_ended(all, space->pid)) {
		space->pid = 0;
		__atomic_store_n(&space->is_gone, true, __ATOMIC_SEQ_CST);
		lives = false;
	} else if (__atomic_load_n(wanted, __ATOMIC_SEQ_CST)) {
		lives = ob_space_budget_lasts(budget, space->pid);
		if (lives)
			ob_zygote_signal(all, vcpu, thread);
		else
			ob_mapper_kill(all, space);
	}
	ob_space_unlock(&space->lock);
	return lives;
}

/*
 * Waits until the thread has begun, up to twice as long after each vain entry more. User code can
 * hide that it runs. So this ends, too, when threads of the stub have run for long. From then on
 * interrupts end the entry. False: the stub is gone.
 */
static bool let_begin(struct ob_spaces *all, struct ob_space_thread *thread, uint32_t vcpu)
{
	const pid_t pid = thread->space->pid;
	const uint64_t own_end = ob_space_running_time(pid) + LOOK_NSEC;
	const uint32_t more = thread->vain - VAIN_MOST, not_wanted = 0;
	uint32_t looks = 1u << (more < MORE_MOST ? more : MORE_MOST);

	while (looks-- && !ob_space_begins(thread) && ob_space_running_time(pid) < own_end)
		if (!look(all, thread, vcpu, &not_wanted, NULL))
			return false;
	__atomic_store_n(&all->vcpus[vcpu].running, thread, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&all->vcpus[vcpu].is_wanted, __ATOMIC_SEQ_CST))
		ob_zygote_signal(all, vcpu, thread);
	return true;
}

/*
 * Until the user thread reports the end of the entry. If that is wanted, it must do so in time.
 * False: the stub is gone.
 */
static bool await_end(struct ob_spaces *all, struct ob_space_thread *thread, uint32_t vcpu,
		      const uint32_t *wanted, struct ob_spinning *spinning)
{
	struct ob_space_budget budget = {};

	/* The mapper may need this processor. */
	if (all->can_spin)
		ob_mapper_await(all, thread->space, thread->start);
	while (!ob_space_await(all, ob_space_word(thread->slot, SLOT_DONE), thread->entry,
			       ob_space_word(thread->door, DOOR_HOST_SLEEPS), spinning))
		if (!look(all, thread, vcpu, wanted, &budget))
			return false;
	__atomic_store_n(ob_space_word(thread->door, DOOR_STATE), thread->entry << 1,
			 __ATOMIC_SEQ_CST);
	return true;
}

/* The thread needs a moment, and perhaps this processor. */
static void pause_briefly(const struct ob_spaces *all, uint32_t turn)
{
	struct timespec moment = { 0, MOMENT_NSEC };

	if (turn >= TURNS_AWAKE)
		raw_ppoll(NULL, 0, &moment);
	else if (!all->can_spin)
		sched_yield();
}

/*
 * Waits until the thread stands still. One that does not is interrupted, and at last its stub is
 * killed. Each signal wakes the thread, so they become rarer: on an overloaded host it would never
 * sleep. False: the stub is gone; or it does not even run, and the wait is `brief`.
 */
static bool settle(struct ob_spaces *all, struct ob_space_thread *thread, bool brief)
{
	const uint32_t vcpu = (uint32_t)(thread - thread->space->threads), wanted = 1;
	uint64_t pause = LOOK_NSEC, next = ob_host_clock_monotonic(NULL) + pause;
	uint64_t own, before = ~0ull;
	struct ob_space_budget budget = {};
	bool lives = true, is_still;
	uint32_t turns = 0;

	*ob_space_word(thread->door, DOOR_SPINS) = 0;
	while (!(is_still = ob_space_stands_still(all, thread)) && lives) {
		lives = !__atomic_load_n(&thread->space->is_gone, __ATOMIC_SEQ_CST);
		ob_space_quieten(all, thread);
		pause_briefly(all, turns++);
		if (!lives || ob_host_clock_monotonic(NULL) < next)
			continue;
		lives = look(all, thread, vcpu, &wanted, &budget);
		own = ob_space_running_time(thread->space->pid);
		if (brief && own == before)
			break;
		before = own;
		pause = pause < PAUSE_MOST ? 2 * pause : PAUSE_MOST;
		next = ob_host_clock_monotonic(NULL) + pause;
	}
	if (budget.end)
		ob_zygote_signal_over(all, vcpu);
	return is_still;
}

/*
 * The thread that user code has left may have another stack, mask of signals or rights of keys, and
 * its slot may have anything. An entry that ends at once sets all of this as for a new thread.
 */
bool ob_space_renew(struct ob_spaces *all, struct ob_space_thread *thread, uint32_t vcpu)
{
	const struct ob_space_registers registers = {
		.ip = ob_stub_address(THREAD_CODE(vcpu), ob_stub_stop),
	};
	const uint32_t wanted = 1;

	if (!settle(all, thread, true))
		return false;
	thread->vain = 0;
	ob_frame_reset(thread->slot, thread->entry);
	write_door(thread, vcpu, NULL);
	ob_frame_write(thread->slot, vcpu, &registers, ob_frame_new_vector(), false);
	thread->has_called = false;
	/* The thread of that vCPU may wait for it to stand still meanwhile. */
	__atomic_store_n(&thread->is_entered, true, __ATOMIC_SEQ_CST);
	ob_space_lock(&thread->space->lock);
	start_thread(all, thread, vcpu);
	ob_space_unlock(&thread->space->lock);
	thread->is_clean = await_end(all, thread, vcpu, &wanted, &all->spinning);
	__atomic_store_n(&thread->is_entered, false, __ATOMIC_SEQ_CST);
	return thread->is_clean;
}

static bool is_canonical(uint64_t address)
{
	return (uint64_t)((int64_t)(address << 16) >> 16) == address;
}

/* An interrupt was wanted already. Unlocks the space. */
static void end_unrun(struct ob_space_vcpu *vcpu, struct ob_space_thread *thread, bool had_vector)
{
	__atomic_store_n(&vcpu->running, NULL, __ATOMIC_SEQ_CST);
	__atomic_store_n(&thread->is_entered, false, __ATOMIC_SEQ_CST);
	vcpu->has_vector = had_vector;
	thread->vain++;
	ob_space_unlock(&thread->space->lock);
}

/* `had_vector`: the entry has replaced the vector registers. */
static void read_registers(struct ob_spaces *all, struct ob_space_vcpu *vcpu,
			   struct ob_space_thread *thread, uint32_t number, bool had_vector,
			   struct ob_space_registers *registers, struct ob_space_event *event)
{
	/* Registers for an entry that did not begin are for the next one. */
	if (!ob_frame_read(thread->slot, number, registers, event,
			   __atomic_load_n(&all->has_calls, __ATOMIC_ACQUIRE)))
		vcpu->has_vector = had_vector;
	if (event->kind == OB_SPACE_CALL) {
		thread->has_called = true;
		thread->call = *registers;
	}
}

/* The space is locked. */
static void run(struct ob_spaces *all, struct ob_space *space, uint32_t number,
		struct ob_space_registers *registers, struct ob_space_event *event)
{
	struct ob_space_thread *thread = &space->threads[number];
	struct ob_space_vcpu *vcpu = &all->vcpus[number];
	const bool is_late = thread->vain >= VAIN_MOST;
	const uint64_t start = registers->ip;
	const bool had_vector = vcpu->has_vector;
	bool lives, is_over;

	write_registers(all, vcpu, thread, number, registers);
	if (!is_late) {
		__atomic_store_n(&vcpu->running, thread, __ATOMIC_SEQ_CST);
		if (__atomic_exchange_n(&vcpu->is_wanted, 0, __ATOMIC_SEQ_CST)) {
			end_unrun(vcpu, thread, had_vector);
			event->kind = OB_SPACE_INTERRUPTED;
			return;
		}
	}
	start_thread(all, thread, number);
	ob_space_unlock(&space->lock);
	lives = (!is_late || let_begin(all, thread, number)) &&
		await_end(all, thread, number, &vcpu->is_wanted, &vcpu->spinning);
	__atomic_store_n(&vcpu->running, NULL, __ATOMIC_SEQ_CST);
	__atomic_store_n(&thread->is_entered, false, __ATOMIC_SEQ_CST);
	is_over = !__atomic_exchange_n(&vcpu->is_wanted, 0, __ATOMIC_SEQ_CST) &&
		ob_space_is_quiet(all, thread);
	if (!is_over)
		ob_zygote_signal_over(all, number);
	if (lives && (is_over || settle(all, thread, false)))
		read_registers(all, vcpu, thread, number, had_vector, registers, event);
	if (event->kind == OB_SPACE_INTERRUPTED && registers->ip == start)
		thread->vain++;
	else
		thread->vain = 0;
}

void ob_host_space_enter(struct ob_host *host, uint64_t number, uint32_t vcpu,
			 struct ob_space_registers *registers, struct ob_space_event *event)
{
	struct ob_spaces *all = __atomic_load_n(&host->spaces, __ATOMIC_ACQUIRE);
	struct ob_space *space = ob_space_find(all, number);
	struct ob_space_thread *last;

	*event = (struct ob_space_event){ .kind = OB_SPACE_GONE };
	if (!space || vcpu >= VCPUS_MOST)
		return;
	has_run = 0;
	/* The processor raises this when such a base is loaded. */
	if (!is_canonical(registers->fs_base) || !is_canonical(registers->gs_base)) {
		*event = (struct ob_space_event){ .kind = OB_SPACE_TRAP, .vector = 13 };
		return;
	}
	last = all->vcpus[vcpu].last;
	if (last && last != &space->threads[vcpu])
		settle(all, last, false);
	if (prepare(all, space, vcpu))
		run(all, space, vcpu, registers, event);
	has_run = vcpu + 1;
}

void ob_posix_spaces_sleep(struct ob_host *host)
{
	const uint32_t vcpu = has_run;
	struct ob_space_thread *last;
	struct ob_spaces *all;

	if (!vcpu)
		return;
	has_run = 0;
	all = __atomic_load_n(&host->spaces, __ATOMIC_ACQUIRE);
	last = all ? all->vcpus[vcpu - 1].last : NULL;
	if (last)
		settle(all, last, true);
}

static int load_vector(struct ob_space_vcpu *vcpu, const void *area, uint64_t size)
{
	int error = ob_frame_check_vector(area, size);

	if (error)
		return error;
	size = size < VECTOR_MOST ? size : VECTOR_MOST;
	memcpy(vcpu->vector, area, size);
	memset(vcpu->vector + size, 0, VECTOR_MOST - size);
	vcpu->has_vector = true;
	return 0;
}

/*
 * Those of the last entry. An entry that was given up may have got a signal: until the host has
 * written the frame, the registers are nowhere.
 */
static int store_vector(struct ob_spaces *all, struct ob_space_vcpu *vcpu, void *area,
			uint64_t size)
{
	if (vcpu->has_vector) {
		memcpy(area, vcpu->vector, size < VECTOR_MOST ? size : VECTOR_MOST);
		return 0;
	}
	if (!vcpu->last || (!ob_space_is_quiet(all, vcpu->last) && !settle(all, vcpu->last, false)))
		return -EINVAL;
	ob_frame_store_vector(vcpu->last->slot, area, size);
	return 0;
}

int ob_host_space_vector(struct ob_host *host, uint32_t number, void *area, uint64_t size,
			 uint32_t store)
{
	struct ob_spaces *all = __atomic_load_n(&host->spaces, __ATOMIC_ACQUIRE);
	struct ob_space_vcpu *vcpu = vcpu_of(all, number);

	if (!vcpu)
		return -EINVAL;
	if (!store)
		return load_vector(vcpu, area, size);
	return size < VECTOR_LEAST ? -EINVAL : store_vector(all, vcpu, area, size);
}

void ob_host_space_interrupt(struct ob_host *host, uint32_t number)
{
	struct ob_spaces *all = __atomic_load_n(&host->spaces, __ATOMIC_ACQUIRE);
	struct ob_space_vcpu *vcpu = vcpu_of(all, number);
	struct ob_space_thread *thread;

	if (!vcpu)
		return;
	/* From before the look at `running`: a thread does not become quiet behind it. */
	__atomic_fetch_add(&vcpu->senders, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&vcpu->is_wanted, 1, __ATOMIC_SEQ_CST);
	thread = __atomic_load_n(&vcpu->running, __ATOMIC_SEQ_CST);
	if (thread)
		ob_zygote_signal(all, number, thread);
	__atomic_fetch_sub(&vcpu->senders, 1, __ATOMIC_SEQ_CST);
}
