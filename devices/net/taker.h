/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One thread at a time takes the frames of a tap's queue or of a hub's port: the queue's own, or a
 * client's thread that waits for the kernel anyway. A client's thread spares a wake-up by the host.
 *
 *   state		the own thread	the taker is
 *   TAKER_THREAD	runs		the own thread
 *   TAKER_NOBODY	sleeps, armed	nobody
 *   TAKER_POLLERS	sleeps		threads that wait for the kernel
 *   TAKER_LOOKS	sleeps		one of these threads, which looks now
 *
 * Armed: the next frame wakes the own thread. How to arm and to disarm is the back-end's.
 *
 *   from		to		function		by
 *   TAKER_THREAD	TAKER_NOBODY	leave, then or before	the own thread, if no frame comes
 *					the caller arms		any more
 *   TAKER_THREAD	TAKER_POLLERS	leave			the same, if threads that poll come
 *								most often
 *   TAKER_NOBODY	TAKER_THREAD	take; disarm		the same, if a frame woke it
 *   TAKER_POLLERS	TAKER_THREAD	take			the same, if it is late: threads
 *								that polled may be stopped
 *   TAKER_NOBODY	TAKER_LOOKS	look; disarm		a thread that begins to poll
 *   TAKER_POLLERS	TAKER_LOOKS	look			a thread that polls
 *   TAKER_LOOKS	TAKER_POLLERS	leave			the same one, after the look
 *   TAKER_LOOKS	TAKER_NOBODY	leave, as above		the same one, after its last look
 *
 * In TAKER_LOOKS nobody else can go on: a frame may be half copied. So the platform lets no handler
 * of the program interrupt a look (hypercall/posix/virtio.c). A debugger that stops the thread
 * stops the queue.
 *
 * All changes are sequentially consistent. The functions neither block nor call the host. With
 * OB_CHECKS, which DEBUG=1 and tests define, a change that is no row ends the process.
 */
#ifndef OUTBOARD_DEVICES_NET_TAKER_H
#define OUTBOARD_DEVICES_NET_TAKER_H

#include <stdbool.h>
#include <stdint.h>
#ifdef OB_CHECKS
#include <stdio.h>
#include <stdlib.h>
#endif

enum ob_taker_state { TAKER_THREAD, TAKER_NOBODY, TAKER_POLLERS, TAKER_LOOKS };

struct ob_taker {
	uint32_t state;			/* enum ob_taker_state; atomic */
	bool poll_wanted;		/* a thread wants to poll: do not spin; atomic */
};

/* Whether the caller is the taker now, and from whom. */
enum ob_taken { NOT_TAKEN, TAKEN_FROM_NOBODY, TAKEN_FROM_POLLERS };

#ifdef OB_CHECKS
static inline void ob_taker_check(uint32_t from, uint32_t to)
{
	static const uint8_t rows[] = {
		[TAKER_THREAD] = 1 << TAKER_NOBODY | 1 << TAKER_POLLERS,
		[TAKER_NOBODY] = 1 << TAKER_THREAD | 1 << TAKER_LOOKS,
		[TAKER_POLLERS] = 1 << TAKER_THREAD | 1 << TAKER_LOOKS,
		[TAKER_LOOKS] = 1 << TAKER_NOBODY | 1 << TAKER_POLLERS,
	};

	if (from < sizeof(rows) && rows[from] & 1 << to)
		return;
	fprintf(stderr, "outboard: a taker changes from state %u to %u\n", from, to);
	abort();
}
#else
static inline void ob_taker_check(uint32_t from, uint32_t to)
{
	(void)from;
	(void)to;
}
#endif

static inline bool ob_taker_change(struct ob_taker *taker, uint32_t from, uint32_t to)
{
	if (!__atomic_compare_exchange_n(&taker->state, &from, to, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return false;
	ob_taker_check(from, to);
	return true;
}

/* For the own thread. `is_late`: also from threads that poll, unless one looks now. */
static inline enum ob_taken ob_taker_take(struct ob_taker *taker, bool is_late)
{
	if (ob_taker_change(taker, TAKER_NOBODY, TAKER_THREAD))
		return TAKEN_FROM_NOBODY;
	if (is_late && ob_taker_change(taker, TAKER_POLLERS, TAKER_THREAD))
		return TAKEN_FROM_POLLERS;
	return NOT_TAKEN;
}

/* For a thread that polls. NOT_TAKEN: the own thread takes frames, and hears that one polls. */
static inline enum ob_taken ob_taker_look(struct ob_taker *taker, bool is_last)
{
	if (ob_taker_change(taker, TAKER_POLLERS, TAKER_LOOKS))
		return TAKEN_FROM_POLLERS;
	if (is_last)
		return NOT_TAKEN;
	if (ob_taker_change(taker, TAKER_NOBODY, TAKER_LOOKS))
		return TAKEN_FROM_NOBODY;
	__atomic_store_n(&taker->poll_wanted, true, __ATOMIC_RELAXED);
	return NOT_TAKEN;
}

/* For the taker. */
static inline void ob_taker_leave(struct ob_taker *taker, enum ob_taker_state to)
{
	ob_taker_check(__atomic_load_n(&taker->state, __ATOMIC_RELAXED), to);
	__atomic_store_n(&taker->poll_wanted, false, __ATOMIC_RELAXED);
	__atomic_store_n(&taker->state, to, __ATOMIC_SEQ_CST);
}

/* The own thread should not spin: another thread polls. */
static inline bool ob_taker_is_polled(const struct ob_taker *taker)
{
	return __atomic_load_n(&taker->poll_wanted, __ATOMIC_RELAXED);
}

#endif
