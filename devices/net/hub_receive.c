// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hub: receives frames. taker.h says who does.
 *
 * The port's thread takes frames from all peers in turn. If there are none it looks again for a
 * short time, then sleeps until a peer rings the bell. When a peer reports a change, the thread
 * looks at the file for ports that came and went. It also looks each second in which the kernel has
 * used the port, and every four seconds if not: ports that nobody uses cost little time.
 *
 * A client's thread that waits for the kernel looks for frames, too: no thread has to wake for the
 * answer that it waits for. The port's thread leaves that to it, and sleeps.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hub.h"

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull

/* The kernel gets an interrupt after so much of one peer at the latest. */
#define BATCH_FRAMES 64
#define BATCH_BYTES (128u << 10)

/* Between two looks: each look slows down the peer that writes there. */
#define PAUSES 4

/* Peers that report changes all the time do not keep the thread from frames. */
#define LOOK_AGAIN_NSEC (10 * NSEC_PER_MSEC)
/* Between two looks whether a thread that polls has gone on. */
#define LATE_NSEC NSEC_PER_MSEC
/* Peers that end without notice are found by then. A lost wake-up is made up for, too. */
#define SLEEP_NSEC NSEC_PER_SEC
#define SLEEP_UNUSED_NSEC (OB_HUB_SECONDS_UNUSED * NSEC_PER_SEC)

#define SECONDS_OF_AGE 64

static bool is_stopping(const struct ob_hub *hub)
{
	return __atomic_load_n(&hub->stopping, __ATOMIC_ACQUIRE);
}

/* ---- frames ------------------------------------------------------------------ */

/*
 * Takes frames of one peer. Sets *received if there was one. Returns the size of a frame for which
 * the kernel has no room; else 0.
 */
static size_t take_from(struct ob_hub *hub, unsigned int port, bool *received)
{
	size_t bytes = 0, length = 0;
	int result = 1;

	for (int i = 0; i < BATCH_FRAMES && bytes < BATCH_BYTES && result > 0; i++) {
		result = ob_hub_take(hub, port, &length);
		if (result > 0)
			bytes += length;
	}
	if (bytes || result < 0) {
		*received = true;
		ob_net_receive_flush(hub->device, 0);
	}
	return result < 0 ? length : 0;
}

/* The rest of a frame that the kernel gets in parts. Returns the room that it needs, or 0. */
static size_t take_rest(struct ob_hub *hub, bool *received)
{
	int result = ob_net_receive_rest(hub->device, 0);

	hub->has_rest = result < 0;
	if (result) {
		*received = true;
		ob_net_receive_flush(hub->device, 0);
	}
	return result < 0 ? ob_net_receive_lacks(hub->device, 0) : 0;
}

static size_t take_all(struct ob_hub *hub, bool *received)
{
	size_t lacking = 0;

	if (!__atomic_load_n(&hub->receiving, __ATOMIC_ACQUIRE))
		return 0;
	for (uint64_t rest = hub->present; rest && !lacking; rest &= rest - 1)
		lacking = take_from(hub, (unsigned int)__builtin_ctzll(rest), received);
	return lacking ? lacking : take_rest(hub, received);
}

/* ---- ports ------------------------------------------------------------------- */

static uint32_t changes(const struct ob_hub *hub)
{
	return __atomic_load_n(&hub->bell->changes, __ATOMIC_ACQUIRE);
}

static uint64_t time_of_look(const struct ob_hub *hub)
{
	if (changes(hub) != hub->changes_seen || hub->look_soon)
		return hub->last_look + LOOK_AGAIN_NSEC;
	if (__atomic_load_n(&hub->used, __ATOMIC_SEQ_CST))
		return hub->last_look + SLEEP_NSEC;
	return hub->last_look + SLEEP_UNUSED_NSEC;
}

static void look_at_ports(struct ob_hub *hub, uint64_t time)
{
	struct ob_hub_entry failed;

	__atomic_store_n(&hub->age, (uint32_t)(time / NSEC_PER_SEC / SECONDS_OF_AGE),
			 __ATOMIC_RELAXED);
	hub->last_look = time;
	__atomic_store_n(&hub->used, false, __ATOMIC_SEQ_CST);
	hub->changes_seen = changes(hub);
	ob_hub_peers_update(hub, &failed);
	ob_hub_peers_clean(hub);
}

/* ---- waiting ----------------------------------------------------------------- */

static bool has_work(struct ob_hub *hub)
{
	if (is_stopping(hub))
		return true;
	if (!__atomic_load_n(&hub->receiving, __ATOMIC_ACQUIRE))
		return false;
	if (hub->has_rest)
		return true;
	for (uint64_t rest = hub->present; rest; rest &= rest - 1)
		if (ob_hub_has_frame(hub, (unsigned int)__builtin_ctzll(rest)))
			return true;
	return false;
}

/* Some looks at the peers, without a look at the clock. */
static bool look_often(struct ob_hub *hub)
{
	for (int i = 0; i < 8; i++) {
		if (has_work(hub))
			return true;
		for (int j = 0; j < PAUSES; j++)
			__builtin_ia32_pause();
	}
	return false;
}

static bool spin(struct ob_hub *hub)
{
	bool found;

	if (!ob_spin_begin(&hub->spin))
		return false;
	do {
		if (ob_taker_is_polled(&hub->taker))
			return false;
		found = look_often(hub);
	} while (ob_spin_goes_on(&hub->spin, found));
	return found;
}

static void wait_for_bell(struct ob_hub *hub, uint32_t seen, uint64_t nanoseconds)
{
	struct timespec timeout = {
		.tv_sec = (time_t)(nanoseconds / NSEC_PER_SEC),
		.tv_nsec = (long)(nanoseconds % NSEC_PER_SEC),
	};

	syscall(SYS_futex, &hub->bell->rings, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

static uint32_t rings(const struct ob_hub *hub)
{
	return __atomic_load_n(&hub->bell->rings, __ATOMIC_SEQ_CST);
}

/* Arms the port, or disarms it. */
static void change_sleep(struct ob_hub *hub)
{
	__atomic_store_n(&hub->control->sleep, hub->control->sleep + 1, __ATOMIC_SEQ_CST);
}

/* The bell rang, or it is time for a look at the ports. */
static bool become_taker(struct ob_hub *hub, bool is_late)
{
	enum ob_taken taken = ob_taker_take(&hub->taker, is_late);

	if (taken == TAKEN_FROM_NOBODY)
		change_sleep(hub);
	return taken != NOT_TAKEN;
}

/* Another thread may take frames meanwhile. */
static void wait_as_nobody(struct ob_hub *hub, uint32_t seen)
{
	uint64_t time = ob_spin_now(), end;

	ob_taker_leave(&hub->taker, TAKER_NOBODY);
	do {
		end = time_of_look(hub);
		wait_for_bell(hub, seen, time < end ? end - time : LATE_NSEC);
		seen = rings(hub);
		time = ob_spin_now();
	} while (!is_stopping(hub) && !become_taker(hub, time >= time_of_look(hub)));
}

/* Sleeps until there is work, but not beyond the time of the next look at the ports. */
static void sleep_until_work(struct ob_hub *hub)
{
	uint32_t seen = rings(hub);

	/* Either a peer sees that this thread sleeps, or this thread sees the peer's frame. */
	change_sleep(hub);
	if (ob_spin_now() < time_of_look(hub) && !has_work(hub))
		wait_as_nobody(hub, seen);
	else
		change_sleep(hub);
}

void ob_hub_work(void *argument)
{
	struct ob_hub *hub = argument;
	bool worked = false;

	while (!is_stopping(hub)) {
		bool received = false;
		size_t lacking;

		if (ob_spin_now() >= time_of_look(hub))
			look_at_ports(hub, ob_spin_now());
		lacking = take_all(hub, &received);
		if (lacking && !ob_net_receive_wait(hub->device, 0, lacking))
			return;
		if (!received && !(worked && spin(hub)))
			sleep_until_work(hub);
		worked = received;
	}
}

/* ---- polling ----------------------------------------------------------------- */

static void end_poll(struct ob_hub *hub)
{
	uint32_t seen = rings(hub);
	bool has_more;

	/* Either a peer sees that nobody looks any more, or this thread sees the peer's frame. */
	change_sleep(hub);
	has_more = has_work(hub);
	ob_taker_leave(&hub->taker, TAKER_NOBODY);
	/* If the bell rang before that, the port's thread has left the work to this one. */
	if (has_more || rings(hub) != seen)
		ob_hub_ring_bell(hub->bell);
}

void ob_hub_poll(struct ob_net_backend *backend, bool is_last)
{
	struct ob_hub *hub = (struct ob_hub *)backend;
	enum ob_taken taken = ob_taker_look(&hub->taker, is_last);
	bool received = false;

	if (taken == NOT_TAKEN)
		return;
	if (taken == TAKEN_FROM_NOBODY) {
		change_sleep(hub);
		ob_hub_use(hub);
	}
	take_all(hub, &received);
	if (is_last)
		end_poll(hub);
	else
		ob_taker_leave(&hub->taker, TAKER_POLLERS);
}
