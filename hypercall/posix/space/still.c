// SPDX-License-Identifier: GPL-2.0-only
/*
 * When a user thread stands still: it runs no code of its program until the next entry.
 *
 * User code can write to its slot that it has come out, and run on. So a thread stands still only
 * if the host says so: the thread sleeps with a futex on the word `state` of its door. It may do
 * that at one instruction only (filter.c), and no other thread may. The code behind that
 * instruction leaves the stub only while bit 0 of `state` is set, and user code cannot write there.
 *
 * A signal would also end the sleep, and user code may have set another stack for signals: then the
 * host writes there, and the handler goes on where that stack says. So a thread must be quiet: no
 * signal to it may come any more. Signals are counted before they are ordered. When nobody is at
 * it, the zygote has not begun a pass that finds the order, and the thread has then been woken from
 * its sleep, it sleeps again only after the last signal. A thread that was on its way to its sleep
 * may begin that with a signal: such a sleep counts for nothing.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "space.h"

/* Moving the sleepers of a word to the same word counts them, and wakes none. */
static bool has_sleeper(uint32_t *word)
{
	return syscall(SYS_futex, word, FUTEX_REQUEUE, 0, 1, word, 0) == 1;
}

/*
 * The mapper writes `state` when it starts a thread. User code of another thread may report the end
 * of the entry before that: then `state` still says that user code may run.
 */
static bool is_started(struct ob_spaces *all, const struct ob_space_thread *thread)
{
	char *door = ob_space_page(all, thread->space->index, MAPPER_DOOR);
	uint32_t done = __atomic_load_n(ob_space_word(door, DOOR_DONE), __ATOMIC_SEQ_CST);

	return (int32_t)(done - thread->start) >= 0;
}

static uint32_t number_of(const struct ob_space_thread *thread)
{
	return (uint32_t)(thread - thread->space->threads);
}

/* Whether all signals to the thread are among these. */
static bool are_all(struct ob_spaces *all, const struct ob_space_thread *thread, uint32_t signals)
{
	/* The senders first: they count their signal before they are done. */
	if (__atomic_load_n(&all->vcpus[number_of(thread)].senders, __ATOMIC_SEQ_CST))
		return false;
	return __atomic_load_n(&thread->signals, __ATOMIC_SEQ_CST) == signals;
}

bool ob_space_is_quiet(struct ob_spaces *all, struct ob_space_thread *thread)
{
	return are_all(all, thread, __atomic_load_n(&thread->received, __ATOMIC_SEQ_CST));
}

void ob_space_quieten(struct ob_spaces *all, struct ob_space_thread *thread)
{
	const uint32_t vcpu = number_of(thread);
	uint32_t signals = __atomic_load_n(&thread->signals, __ATOMIC_SEQ_CST);

	/* Else an order is left alone: it may be for the thread that the vCPU runs now. */
	if (signals == __atomic_load_n(&thread->woken, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&all->vcpus[vcpu].senders, __ATOMIC_SEQ_CST) ||
	    !ob_zygote_recall_signal(all, vcpu))
		return;
	if (ob_space_wake(ob_space_word(thread->door, DOOR_STATE)))
		__atomic_store_n(&thread->woken, signals, __ATOMIC_SEQ_CST);
}

bool ob_space_stands_still(struct ob_spaces *all, struct ob_space_thread *thread)
{
	uint32_t *state = ob_space_word(thread->door, DOOR_STATE);
	/* Before `is_entered`: a later entry is not this one's. */
	const uint32_t entry = __atomic_load_n(&thread->entry, __ATOMIC_SEQ_CST);
	const uint32_t woken = __atomic_load_n(&thread->woken, __ATOMIC_SEQ_CST);
	uint32_t running = entry << 1 | 1;

	if (__atomic_load_n(&thread->is_entered, __ATOMIC_SEQ_CST))
		return false;
	if (__atomic_load_n(&thread->is_still, __ATOMIC_SEQ_CST)) {
		if (ob_space_is_quiet(all, thread))
			return true;
		/* An entry that was given up before it began has got a signal. */
		__atomic_store_n(&thread->is_still, false, __ATOMIC_SEQ_CST);
	}
	if (!are_all(all, thread, woken) || !is_started(all, thread))
		return false;
	__atomic_compare_exchange_n(state, &running, entry << 1, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	if (__atomic_load_n(state, __ATOMIC_SEQ_CST) & 1 || !has_sleeper(state))
		return false;
	__atomic_store_n(&thread->received, woken, __ATOMIC_SEQ_CST);
	__atomic_store_n(&thread->is_still, true, __ATOMIC_SEQ_CST);
	return true;
}
