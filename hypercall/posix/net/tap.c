// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network: a tap interface of the host, "tap:NAME" or "tap:fd=N".
 *
 * The client's thread writes a frame into the tap without blocking. Each queue has a thread that
 * reads frames straight into the kernel's buffers. The thread reads until the tap is empty, then
 * sleeps in poll() on the tap and on an eventfd. Other threads change a state below, then write to
 * the eventfd:
 *
 *   state		set by		effect on the thread
 *   features_set	set_features()	queue 0: sets the host's offloads, then features_done
 *   features_done	queue 0		reads from the tap, if it is equal to features_set
 *   wanted		set_queues()	attaches or detaches its queue; reads if that is attached
 *   stopping		close()		ends
 *
 * Offloads and queues are for threads without a vCPU: the host's calls for them may block. A frame
 * for a queue that is not attached yet goes through queue 0.
 *
 * A frame that is longer than its buffers would lose its end: the host drops the rest and reports
 * no error. So the thread waits for the largest frame's room before it reads. If the kernel's ring
 * never has so much room, the thread reads one frame into what there is, and drops it if it fills
 * all of that.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "../internal.h"
#include "../raw.h"
#include "deliver.h"
#include "pieces.h"
#include "tap.h"

/* The kernel gets an interrupt after so much at the latest, and works while the thread reads on. */
#define BATCH_FRAMES 64
#define BATCH_BYTES (128u << 10)

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

static int transmit(struct ob_net_backend *backend, unsigned int queue,
		    const struct iovec *pieces, int count)
{
	struct ob_tap *tap = (struct ob_tap *)backend;
	bool attached = __atomic_load_n(&tap->queues[queue].attached, __ATOMIC_ACQUIRE);
	int fd = tap->queues[attached ? queue : 0].fd;
	ssize_t sent;

	do {
		sent = raw_writev(fd, pieces, count);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

/* Is that a whole frame? One that fills its buffers may have lost its end. */
static bool is_whole(ssize_t length, size_t room, size_t most)
{
	return length > (ssize_t)OB_NET_HEADER_BYTES && ((size_t)length < room || room >= most);
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
	length = raw_readv(queue->fd, pieces, count);
	ob_net_receive_end(port, queue->number,
			   is_whole(length, room, most) ? (size_t)length : 0);
	if (length < 0)
		return errno == EINTR ? RECEIVED : EMPTY;
	*bytes += (size_t)length;
	return RECEIVED;
}

/* Receives some frames. NO_ROOM: for the next one. */
static enum outcome receive_batch(struct ob_tap_queue *queue, bool any_room)
{
	enum outcome outcome = RECEIVED;
	size_t bytes = 0;

	for (int i = 0; i < BATCH_FRAMES && bytes < BATCH_BYTES && outcome == RECEIVED; i++) {
		outcome = receive_frame(queue, any_room, &bytes);
		any_room = false;
	}
	ob_net_receive_flush(queue->tap->port, queue->number);
	return outcome;
}

/* The tap is empty: reads again for a short time. */
static enum outcome spin(struct ob_tap_queue *queue)
{
	enum outcome outcome = EMPTY;

	if (!ob_spin_begin(&queue->spin))
		return EMPTY;
	do {
		outcome = receive_batch(queue, false);
	} while (ob_spin_goes_on(&queue->spin, outcome != EMPTY));
	return outcome;
}

/* Receives until the tap is empty, or not to be read now. False: the thread should end. */
static bool receive_all(struct ob_tap_queue *queue)
{
	enum outcome outcome = RECEIVED;

	while (outcome != EMPTY && !is_stopping(queue->tap)) {
		if (outcome == NO_ROOM && !ob_net_receive_wait(queue->tap->port, queue->number,
							       OB_NET_FRAME_MOST))
			return false;
		if (!is_readable(queue))
			break;
		outcome = receive_batch(queue, outcome == NO_ROOM);
		if (outcome == EMPTY)
			outcome = spin(queue);
	}
	return !is_stopping(queue->tap);
}

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

static void wake_threads(struct ob_tap *tap)
{
	for (unsigned int i = 0; i < tap->backend.queues; i++)
		event_set(&tap->queues[i]);
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
	wake_threads(tap);
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

/*
 * Blocks until the tap has frames. A tap that fails, because its interface was deleted, is not
 * polled before the next event.
 */
static void wait_for_frames(struct ob_tap_queue *queue)
{
	bool failed = false;

	while (!is_stopping(queue->tap)) {
		struct pollfd fds[2];

		if (queue->number == 0)
			follow_features(queue->tap);
		follow_queues(queue);
		fds[0] = (struct pollfd){ .fd = queue->event, .events = POLLIN };
		fds[1] = (struct pollfd){
			.fd = failed || !is_readable(queue) ? -1 : queue->fd, .events = POLLIN,
		};
		if (raw_ppoll(fds, 2, NULL) < 0)
			continue;
		if (fds[0].revents)
			event_clear(queue);
		if (fds[1].revents & POLLIN)
			return;
		failed = !fds[0].revents && fds[1].revents;
	}
}

static void work(void *argument)
{
	struct ob_tap_queue *queue = argument;

	do {
		wait_for_frames(queue);
	} while (receive_all(queue));
}

static int set_features(struct ob_net_backend *backend, uint64_t features)
{
	struct ob_tap *tap = (struct ob_tap *)backend;

	__atomic_store_n(&tap->features, features, __ATOMIC_RELEASE);
	__atomic_add_fetch(&tap->features_set, 1, __ATOMIC_RELEASE);
	event_set(&tap->queues[0]);
	return 0;
}

static int set_queues(struct ob_net_backend *backend, unsigned int count)
{
	struct ob_tap *tap = (struct ob_tap *)backend;

	for (unsigned int i = 0; i < backend->queues; i++)
		__atomic_store_n(&tap->queues[i].wanted, i < count, __ATOMIC_RELEASE);
	wake_threads(tap);
	return 0;
}

static void stop_threads(struct ob_tap *tap)
{
	__atomic_store_n(&tap->stopping, true, __ATOMIC_RELEASE);
	for (int i = 0; i < OB_NET_QUEUES_MOST; i++) {
		struct ob_tap_queue *queue = &tap->queues[i];

		if (!queue->has_thread)
			continue;
		event_set(queue);
		ob_host_thread_join(tap->host, queue->thread);
	}
}

static void release(struct ob_tap *tap)
{
	for (int i = 0; i < OB_NET_QUEUES_MOST; i++) {
		if (tap->queues[i].fd >= 0)
			raw_close(tap->queues[i].fd);
		if (tap->queues[i].event >= 0)
			raw_close(tap->queues[i].event);
	}
	free(tap);
}

/* The program's own descriptors are queues of the interface again, as they were. */
static void restore_queues(struct ob_tap *tap)
{
	for (unsigned int i = 1; i < OB_NET_QUEUES_MOST; i++)
		if (tap->is_given && tap->queues[i].fd >= 0 && !tap->queues[i].attached)
			ob_tap_attach(&tap->queues[i], true);
}

static void close_tap(struct ob_net_backend *backend)
{
	struct ob_tap *tap = (struct ob_tap *)backend;

	ob_net_port_stop(tap->port);
	stop_threads(tap);
	restore_queues(tap);
	release(tap);
}

static void forked(struct ob_net_backend *backend)
{
	release((struct ob_tap *)backend);
}

static const struct ob_net_backend_operations operations = {
	.transmit = transmit,
	.set_features = set_features,
	.set_queues = set_queues,
	.close = close_tap,
	.forked = forked,
};

static int start_thread(struct ob_tap_queue *queue)
{
	int error;

	queue->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (queue->event < 0)
		return -errno;
	error = ob_host_thread_create(queue->tap->host, work, queue, "outboard-tap",
				      &queue->thread);
	queue->has_thread = !error;
	return error;
}

static int start_threads(struct ob_tap *tap, char *error, size_t error_size)
{
	for (unsigned int i = 0; i < tap->backend.queues; i++) {
		int result = start_thread(&tap->queues[i]);

		if (!result)
			continue;
		snprintf(error, error_size, "cannot receive from tap interface %s: the host "
			 "refuses another thread or descriptor (%s); raise the limits of the "
			 "process", tap->name, strerror(-result));
		return result;
	}
	return 0;
}

static struct ob_tap *new_tap(struct ob_host *host, struct ob_net_port *port)
{
	struct ob_tap *tap = calloc(1, sizeof(*tap));

	if (!tap)
		return NULL;
	tap->backend.operations = &operations;
	tap->host = host;
	tap->port = port;
	for (unsigned int i = 0; i < OB_NET_QUEUES_MOST; i++) {
		tap->queues[i].tap = tap;
		tap->queues[i].number = i;
		tap->queues[i].fd = -1;
		tap->queues[i].event = -1;
	}
	return tap;
}

int ob_net_tap_open(struct ob_host *host, struct ob_net_port *port,
		    const struct ob_net_request *request, struct ob_net_backend **backend,
		    char *error, size_t error_size)
{
	struct ob_tap *tap = new_tap(host, port);
	int result;

	if (!tap) {
		snprintf(error, error_size, "cannot open a tap interface: out of memory");
		return -ENOMEM;
	}
	result = ob_tap_open_interface(tap, request, error, error_size);
	if (!result)
		result = start_threads(tap, error, error_size);
	if (result) {
		stop_threads(tap);
		restore_queues(tap);
		release(tap);
		return result;
	}
	*backend = &tap->backend;
	return 0;
}
