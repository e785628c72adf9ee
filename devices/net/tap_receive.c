// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tap: receives frames. taker.h says who does.
 *
 * A queue's thread reads frames straight into the kernel's buffers until the tap is empty. Then it
 * sleeps until a frame or an event comes. Other threads change a state below, then call
 * ob_tap_notify():
 *
 *   state		set by		effect on the thread
 *   features_set	set_features()	queue 0: sets the host's offloads, then features_done
 *   features_done	queue 0		reads from the tap, if it is equal to features_set
 *   wanted		set_queues()	attaches or detaches its queue; reads if that is attached
 *   stopping		close()		ends
 *
 * Offloads and queues are for threads without a vCPU: the host's calls for them may block.
 *
 * A client's thread that waits for the kernel reads, too: no thread has to wake for the answer that
 * it waits for. Where frames come, such threads most often come again soon. So the tap stays with
 * them in between, and no frame wakes the queue's thread. If none has looked for 250 us, the
 * queue's thread reads. A thread that goes to sleep has looked last: the next frame then wakes the
 * queue's thread. The queue's thread leaves the tap to a thread that wants to look, also while more
 * frames come: a stream is received faster by the thread that reads it than by two.
 *
 * A frame that is longer than its buffers would lose its end: the host drops the rest and reports
 * no error. So a thread waits for the largest frame's room before it reads. If the kernel's ring
 * never has so much room, the queue's thread reads one frame into what there is, and drops it if it
 * fills all of that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "raw.h"
#include "../shared_fd.h"
#include "pieces.h"
#include "report.h"
#include "tap.h"

/* The kernel gets an interrupt after so much at the latest, and works while the thread reads on. */
#define BATCH_FRAMES 64
#define BATCH_BYTES (128u << 10)

#define NSEC_PER_SEC 1000000000ull

/* After so many waits in which frames came, the tap stays with the threads that wait. */
#define STREAK 4u

/*
 * How long the queue's thread sleeps at most: while the tap stays with others, else, and before it
 * tries again to take the tap from them.
 */
#define STAY_NSEC 250000ull
#define LATE_NSEC NSEC_PER_SEC
#define RETRY_NSEC 1000000ull

enum outcome { RECEIVED, EMPTY, NO_ROOM };

static bool is_stopping(const struct ob_tap *tap)
{
	return __atomic_load_n(&tap->stopping, __ATOMIC_ACQUIRE);
}

static bool is_readable(const struct ob_tap_queue *queue)
{
	const struct ob_tap *tap = queue->tap;
	uint32_t done = __atomic_load_n(&tap->features_done, __ATOMIC_ACQUIRE);

	return done && done == __atomic_load_n(&tap->features_set, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&queue->attached, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&queue->wanted, __ATOMIC_ACQUIRE);
}

/* ---- frames ------------------------------------------------------------------ */

/* Is that a whole frame? One that fills its buffers may have lost its end. */
static bool is_whole(ssize_t length, size_t room, size_t most)
{
	return length > (ssize_t)OB_NET_HEADER_BYTES && ((size_t)length < room || room >= most);
}

static ssize_t read_frame(const struct ob_tap_queue *queue, const struct iovec *pieces, int count)
{
	if (queue->tap->is_given)
		return ob_shared_read(queue->fd, pieces, count);
	return raw_readv(queue->fd, pieces, count);
}

/* `any_room`: also if the largest frame does not fit. */
static enum outcome receive_frame(struct ob_tap_queue *queue, bool any_room, size_t *bytes)
{
	struct ob_net_port *port = queue->tap->port;
	struct iovec pieces[OB_NET_PIECES_MOST];
	int count = ob_net_receive_begin(port, queue->number, OB_NET_FRAME_MOST, pieces);
	size_t room = ob_net_pieces_length(pieces, count), most = ob_net_frame_most(port);
	ssize_t length;

	if (!count)
		return NO_ROOM;
	if (room < most && !any_room) {
		ob_net_receive_end(port, queue->number, 0);
		return NO_ROOM;
	}
	length = read_frame(queue, pieces, count);
	ob_net_receive_end(port, queue->number,
			   is_whole(length, room, most) ? (size_t)length : 0);
	if (length < 0)
		return errno == EINTR ? RECEIVED : EMPTY;
	*bytes += (size_t)length;
	return RECEIVED;
}

/* Receives some frames. NO_ROOM: for the next one. Sets *received if there was one. */
static enum outcome receive_batch(struct ob_tap_queue *queue, bool any_room, bool *received)
{
	enum outcome outcome = RECEIVED;
	size_t bytes = 0;

	for (int i = 0; i < BATCH_FRAMES && bytes < BATCH_BYTES && outcome == RECEIVED; i++) {
		outcome = receive_frame(queue, any_room, &bytes);
		any_room = false;
	}
	if (bytes) {
		*received = true;
		/* The kernel wakes threads for these frames: they look again before they sleep. */
		__atomic_store_n(&queue->left, false, __ATOMIC_SEQ_CST);
		ob_net_receive_flush(queue->tap->port, queue->number);
	}
	return outcome;
}

/* The tap is empty: reads again for a short time, unless a thread wants to poll. */
static enum outcome spin(struct ob_tap_queue *queue)
{
	enum outcome outcome = EMPTY;
	bool received = false;

	if (!ob_spin_begin(&queue->spin))
		return EMPTY;
	do {
		if (ob_taker_is_polled(&queue->taker))
			break;
		outcome = receive_batch(queue, false, &received);
	} while (ob_spin_goes_on(&queue->spin, outcome != EMPTY));
	return outcome;
}

/*
 * Receives until the tap is empty, or not to be read now, or a thread wants to poll, which has got
 * frames. Sets *received if there was a frame. False: the thread should end.
 */
static bool receive_all(struct ob_tap_queue *queue, bool *received)
{
	enum outcome outcome = RECEIVED;

	*received = false;
	while (outcome != EMPTY && !is_stopping(queue->tap)) {
		if (outcome == NO_ROOM && !ob_net_receive_wait(queue->tap->port, queue->number,
							       OB_NET_FRAME_MOST))
			return false;
		if (!is_readable(queue))
			break;
		outcome = receive_batch(queue, outcome == NO_ROOM, received);
		if (*received && ob_taker_is_polled(&queue->taker))
			break;
		if (outcome == EMPTY && *received)
			outcome = spin(queue);
	}
	return !is_stopping(queue->tap);
}

/* ---- events ------------------------------------------------------------------ */

static void event_clear(const struct ob_tap_queue *queue)
{
	uint64_t count;

	/* The eventfd does not block. It is no error if it is empty. */
	(void)!raw_read(queue->event, &count, sizeof(count));
}

static void event_set(const struct ob_tap_queue *queue)
{
	uint64_t one = 1;

	/* It is no error if the counter is full: the eventfd is readable. */
	(void)!raw_write(queue->event, &one, sizeof(one));
}

void ob_tap_notify(struct ob_tap_queue *queue)
{
	__atomic_store_n(&queue->called, true, __ATOMIC_SEQ_CST);
	event_set(queue);
}

void ob_tap_notify_all(struct ob_tap *tap)
{
	for (unsigned int i = 0; i < tap->backend.queues; i++)
		ob_tap_notify(&tap->queues[i]);
}

static void report(struct ob_tap *tap, const char *refused, int error)
{
	char text[160];

	snprintf(text, sizeof(text), "tap interface %s: the host refuses %s (%s)", tap->name,
		 refused, strerror(-error));
	ob_net_warn(tap->host, text);
}

/* The thread of queue 0 sets the offloads that the kernel's driver has accepted. */
static void follow_features(struct ob_tap *tap)
{
	uint32_t set = __atomic_load_n(&tap->features_set, __ATOMIC_ACQUIRE);
	int error;

	if (set == __atomic_load_n(&tap->features_done, __ATOMIC_RELAXED))
		return;
	error = ob_tap_set_offloads(tap, __atomic_load_n(&tap->features, __ATOMIC_ACQUIRE));
	if (error) {
		report(tap, "offloads", error);
		ob_net_port_link(tap->port, false);
	}
	__atomic_store_n(&tap->features_done, set, __ATOMIC_RELEASE);
	ob_tap_notify_all(tap);
}

/* If the host refuses to attach a queue, its frames go through queue 0, and it receives none. */
static void follow_queues(struct ob_tap_queue *queue)
{
	bool wanted = __atomic_load_n(&queue->wanted, __ATOMIC_ACQUIRE);
	int error;

	if (wanted == queue->attached)
		return;
	if (!wanted)
		__atomic_store_n(&queue->attached, false, __ATOMIC_RELEASE);
	error = ob_tap_attach(queue, wanted);
	if (error)
		report(queue->tap, wanted ? "another queue" : "to detach a queue", error);
	else
		__atomic_store_n(&queue->attached, wanted, __ATOMIC_RELEASE);
}

static void follow(struct ob_tap_queue *queue)
{
	if (queue->number == 0)
		follow_features(queue->tap);
	follow_queues(queue);
}

/* ---- the queue's thread ------------------------------------------------------- */

/* A frame wakes the queue's thread, once, also one that is there already; or none does. */
static void arm(const struct ob_tap_queue *queue, bool armed)
{
	struct epoll_event event = {
		.events = EPOLLONESHOT | (armed ? EPOLLIN : 0), .data.fd = queue->fd,
	};

	epoll_ctl(queue->waiting, EPOLL_CTL_MOD, queue->fd, &event);
}

/* Returns whether there are events. */
static bool sleep_for_events(int fd, uint64_t nanoseconds)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN };
	struct timespec time = {
		.tv_sec = (time_t)(nanoseconds / NSEC_PER_SEC),
		.tv_nsec = (long)(nanoseconds % NSEC_PER_SEC),
	};

	return raw_ppoll(&pollfd, 1, &time) != 0;
}

/* Takes all events. Returns those of the tap. */
static uint32_t take_events(const struct ob_tap_queue *queue)
{
	struct epoll_event events[2];
	uint32_t of_tap = 0;
	int count = raw_epoll_wait(queue->waiting, events, 2, 0);

	for (int i = 0; i < count; i++) {
		if (events[i].data.fd == queue->event)
			event_clear(queue);
		else
			of_tap |= events[i].events;
	}
	return of_tap;
}

static uint64_t patience(const struct ob_tap_queue *queue, bool called)
{
	if (called)
		return RETRY_NSEC;
	return __atomic_load_n(&queue->staying, __ATOMIC_RELAXED) ? STAY_NSEC : LATE_NSEC;
}

/* The taker leaves the tap: to threads that poll, or to the next frame. */
static void leave(struct ob_tap_queue *queue, bool to_pollers)
{
	__atomic_store_n(&queue->staying, to_pollers, __ATOMIC_RELAXED);
	ob_taker_leave(&queue->taker, to_pollers ? TAKER_POLLERS : TAKER_NOBODY);
	if (!to_pollers)
		arm(queue, true);
}

/*
 * Sleeps until there may be frames or other work for this thread. `received`: frames came a moment
 * ago. Returns events of the tap.
 */
static uint32_t rest(struct ob_tap_queue *queue, bool received)
{
	bool called = false, is_late;
	uint32_t events = 0;

	leave(queue, received);
	/* A thread that has gone to sleep found this one here. */
	if (received && __atomic_load_n(&queue->left, __ATOMIC_SEQ_CST) &&
	    ob_taker_change(&queue->taker, TAKER_POLLERS, TAKER_THREAD))
		leave(queue, false);
	do {
		uint32_t looks = __atomic_load_n(&queue->looks, __ATOMIC_RELAXED);

		is_late = !sleep_for_events(queue->waiting, patience(queue, called)) &&
			  looks == __atomic_load_n(&queue->looks, __ATOMIC_RELAXED);
		events |= take_events(queue);
		called |= __atomic_exchange_n(&queue->called, false, __ATOMIC_SEQ_CST);
	} while (ob_taker_take(&queue->taker, called || is_late) == NOT_TAKEN);
	queue->streak = 0;
	return events;
}

/* Sleeps until ob_tap_notify(). The tap is not read meanwhile. */
static void wait_for_notice(struct ob_tap_queue *queue)
{
	struct pollfd pollfd = { .fd = queue->event, .events = POLLIN };

	raw_ppoll(&pollfd, 1, NULL);
	event_clear(queue);
}

/* A tap that fails, because its interface was deleted, is not read before the next notice. */
void ob_tap_work(void *argument)
{
	struct ob_tap_queue *queue = argument;
	bool received = false;
	uint32_t events = 0;

	for (;;) {
		follow(queue);
		if (is_stopping(queue->tap))
			return;
		if (!is_readable(queue) || (events && !(events & EPOLLIN))) {
			wait_for_notice(queue);
			events = 0;
			continue;
		}
		if (!receive_all(queue, &received))
			return;
		events = rest(queue, received);
	}
}

/* ---- threads that poll -------------------------------------------------------- */

static void end_poll(struct ob_tap_queue *queue)
{
	bool stayed = queue->staying, stays;

	queue->streak = queue->polled ? queue->streak + 1 : 0;
	queue->polled = false;
	stays = queue->streak >= STREAK;
	leave(queue, stays);
	/* The queue's thread may sleep for long. */
	if (stays && !stayed)
		event_set(queue);
}

static void look(struct ob_tap_queue *queue, bool is_last)
{
	enum ob_taken taken;

	if (is_last)
		__atomic_store_n(&queue->left, true, __ATOMIC_SEQ_CST);
	taken = ob_taker_look(&queue->taker, is_last);
	if (taken == NOT_TAKEN)
		return;
	if (taken == TAKEN_FROM_NOBODY)
		arm(queue, false);
	if (is_readable(queue))
		receive_batch(queue, false, &queue->polled);
	__atomic_store_n(&queue->looks, queue->looks + 1, __ATOMIC_RELAXED);
	if (is_last)
		end_poll(queue);
	else
		ob_taker_leave(&queue->taker, TAKER_POLLERS);
}

void ob_tap_poll(struct ob_net_backend *backend, bool is_last)
{
	struct ob_tap *tap = (struct ob_tap *)backend;

	for (unsigned int i = 0; i < backend->queues; i++)
		look(&tap->queues[i], is_last);
}
