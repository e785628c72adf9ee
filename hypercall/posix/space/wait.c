// SPDX-License-Identifier: GPL-2.0-only
/*
 * How the platform waits for stubs, which are other processes: it spins, if that helped lately and
 * there is a second processor; then it sleeps with a futex. After a vain attempt to spin it skips
 * some waits, twice as many each time.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "space.h"

#define SPIN_NSEC 20000ull
#define MOMENT_NSEC 100000ull
#define BUDGET_NSEC 1000000000ull
#define PATIENCE_NSEC 30000000000ull
#define RELUCTANCE_MOST 255u

/* Values of a lock. */
enum { FREE, HELD, HELD_AND_WANTED };

/* Waiters sleep: the holder waits for a stub, which may need their processor. */
void ob_space_lock(uint32_t *lock)
{
	uint32_t before = FREE;

	if (__atomic_compare_exchange_n(lock, &before, HELD, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(lock, HELD_AND_WANTED, __ATOMIC_ACQUIRE) != FREE)
		syscall(SYS_futex, lock, FUTEX_WAIT_PRIVATE, HELD_AND_WANTED, NULL, NULL, 0);
}

void ob_space_unlock(uint32_t *lock)
{
	if (__atomic_exchange_n(lock, FREE, __ATOMIC_RELEASE) == HELD_AND_WANTED)
		syscall(SYS_futex, lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

bool ob_spinning_is_useful(struct ob_spinning *spinning)
{
	if (!spinning->skips)
		return true;
	spinning->skips--;
	return false;
}

void ob_spinning_learn(struct ob_spinning *spinning, bool was_useful)
{
	uint32_t more = spinning->reluctance * 2 + 1;

	if (was_useful)
		more = 0;
	spinning->reluctance = more < RELUCTANCE_MOST ? more : RELUCTANCE_MOST;
	spinning->skips = spinning->reluctance;
}

uint64_t ob_space_running_time(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &time))
		return 0;
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

bool ob_space_budget_lasts(struct ob_space_budget *budget, pid_t pid)
{
	uint64_t now = ob_host_clock_monotonic(NULL), own = ob_space_running_time(pid);

	if (!budget->end)
		*budget = (struct ob_space_budget){ own + BUDGET_NSEC, now + PATIENCE_NSEC };
	return own < budget->own_end && now < budget->end;
}

static bool has_value(const uint32_t *word, uint32_t value)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE) == value;
}

static bool spin(const uint32_t *word, uint32_t value)
{
	uint64_t end = ob_host_clock_monotonic(NULL) + SPIN_NSEC;

	do {
		for (int i = 0; i < 16; i++) {
			if (has_value(word, value))
				return true;
			__asm__ volatile("pause");
		}
	} while (ob_host_clock_monotonic(NULL) < end);
	return false;
}

/* User code may write the word at any time, so the clock ends the wait. */
static bool sleep_until(uint32_t *word, uint32_t value, uint64_t nsec)
{
	const uint64_t end = ob_host_clock_monotonic(NULL) + nsec;
	const struct timespec time = { 0, (long)nsec };
	uint32_t now;

	for (;;) {
		now = __atomic_load_n(word, __ATOMIC_SEQ_CST);
		if (now == value)
			return true;
		if (ob_host_clock_monotonic(NULL) >= end)
			return false;
		syscall(SYS_futex, word, FUTEX_WAIT, now, &time, NULL, 0);
	}
}

bool ob_space_await(struct ob_spaces *all, uint32_t *word, uint32_t value, uint32_t *sleeps,
		    struct ob_spinning *spinning)
{
	bool found;

	if (has_value(word, value))
		return true;
	if (all->can_spin && spinning && ob_spinning_is_useful(spinning)) {
		found = spin(word, value);
		ob_spinning_learn(spinning, found);
		if (found)
			return true;
	}
	if (!sleeps)
		return sleep_until(word, value, LOOK_NSEC);
	__atomic_store_n(sleeps, 1, __ATOMIC_SEQ_CST);
	found = sleep_until(word, value, LOOK_NSEC);
	__atomic_store_n(sleeps, 0, __ATOMIC_RELAXED);
	return found;
}

bool ob_space_begins(struct ob_space_thread *thread)
{
	uint32_t *done = ob_space_word(thread->slot, SLOT_DONE);
	const uint32_t *sleeps = ob_space_word(thread->slot, SLOT_SLEEPS);
	const uint64_t end = ob_host_clock_monotonic(NULL) + LOOK_NSEC;
	bool has_begun = false;

	while (!has_begun && ob_host_clock_monotonic(NULL) < end) {
		has_begun = has_value(sleeps, 0);
		if (sleep_until(done, thread->entry, MOMENT_NSEC))
			return true;
	}
	return has_begun;
}

bool ob_space_wake(uint32_t *word)
{
	return syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) > 0;
}
