// SPDX-License-Identifier: GPL-2.0-only
/* A bell: bell.h. */
#define _GNU_SOURCE
#include "internal.h"
#include "../shared_fd.h"
#include "bell.h"
#include "clock.h"

/* Between two tries to release a thread. */
#define TRY_NSEC 1000000ull

static bool enter(struct ob_bell *bell)
{
	__atomic_add_fetch(&bell->users, 1, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&bell->open, __ATOMIC_SEQ_CST);
}

static void leave(struct ob_bell *bell)
{
	__atomic_sub_fetch(&bell->users, 1, __ATOMIC_SEQ_CST);
}

static uint32_t users(const struct ob_bell *bell)
{
	return __atomic_load_n(&bell->users, __ATOMIC_SEQ_CST);
}

void ob_bell_open(struct ob_bell *bell)
{
	__atomic_store_n(&bell->open, true, __ATOMIC_SEQ_CST);
}

void ob_bell_ring(struct ob_bell *bell)
{
	uint64_t one = 1;

	/* It is no error if the counter is full: the descriptor is readable. */
	if (enter(bell) && bell->fd >= 0)
		(void)!raw_write(bell->fd, &one, sizeof(one));
	leave(bell);
}

/* A thread that is here rings, or releases one that does. */
void ob_bell_release(struct ob_bell *bell)
{
	if (enter(bell) && bell->fd >= 0 && users(bell) > 1)
		ob_shared_event_clear(bell->fd);
	leave(bell);
}

static uint64_t now(void)
{
	return ob_net_clock(CLOCK_MONOTONIC);
}

bool ob_bell_silence(struct ob_bell *bell, struct ob_host *host)
{
	struct ob_patience patience = ob_patience_of(now(), OB_BELL_PATIENCE_NSEC);
	uint32_t never = 0;

	__atomic_store_n(&bell->open, false, __ATOMIC_SEQ_CST);
	while (users(bell)) {
		if (ob_patience_ends(&patience, now()))
			return false;
		ob_host_wait(host, &never, 0, TRY_NSEC);
		if (users(bell))
			ob_shared_event_clear(bell->fd);
	}
	return true;
}

/* Releases the bells. Did a thread ring one? */
static bool release_all(struct ob_bell *const bells[], unsigned int count)
{
	bool is_rung = false;

	for (unsigned int i = 0; i < count; i++) {
		is_rung |= users(bells[i]) > 0;
		ob_bell_release(bells[i]);
	}
	return is_rung;
}

bool ob_bell_wait(struct ob_bell *const bells[], unsigned int count, struct ob_host *host,
		  const uint32_t *word)
{
	struct ob_patience patience = ob_patience_of(now(), 2 * OB_BELL_PATIENCE_NSEC);

	while (!__atomic_load_n(word, __ATOMIC_SEQ_CST)) {
		ob_host_wait(host, word, 0, TRY_NSEC);
		if (!release_all(bells, count))
			patience = ob_patience_of(now(), 2 * OB_BELL_PATIENCE_NSEC);
		else if (ob_patience_ends(&patience, now()))
			return false;
	}
	return true;
}
