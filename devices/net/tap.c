// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network: a tap interface of the host, "tap:NAME" or "tap:fd=N".
 *
 * The client's thread writes a frame into the tap without blocking. tap_receive.c has the other
 * direction. A frame for a queue that is not attached yet goes through queue 0.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "internal.h"
#include "raw.h"
#include "../shared_fd.h"
#include "tap.h"

static int transmit(struct ob_net_backend *backend, unsigned int queue,
		    const struct iovec *pieces, int count)
{
	struct ob_tap *tap = (struct ob_tap *)backend;
	bool attached = __atomic_load_n(&tap->queues[queue].attached, __ATOMIC_ACQUIRE);
	int fd = tap->queues[attached ? queue : 0].fd;
	ssize_t sent;

	do {
		sent = tap->is_given ? ob_shared_write(fd, pieces, count)
				     : raw_writev(fd, pieces, count);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

static int set_features(struct ob_net_backend *backend, uint64_t features)
{
	struct ob_tap *tap = (struct ob_tap *)backend;

	__atomic_store_n(&tap->features, features, __ATOMIC_RELEASE);
	__atomic_add_fetch(&tap->features_set, 1, __ATOMIC_RELEASE);
	ob_tap_notify(&tap->queues[0]);
	return 0;
}

static int set_queues(struct ob_net_backend *backend, unsigned int count)
{
	struct ob_tap *tap = (struct ob_tap *)backend;

	for (unsigned int i = 0; i < backend->queues; i++)
		__atomic_store_n(&tap->queues[i].wanted, i < count, __ATOMIC_RELEASE);
	ob_tap_notify_all(tap);
	return 0;
}

static void stop_threads(struct ob_tap *tap)
{
	__atomic_store_n(&tap->stopping, true, __ATOMIC_RELEASE);
	for (int i = 0; i < OB_NET_QUEUES_MOST; i++) {
		struct ob_tap_queue *queue = &tap->queues[i];

		if (!queue->has_thread)
			continue;
		ob_tap_notify(queue);
		ob_host_thread_join(tap->host, queue->thread);
	}
}

static void close_descriptors(struct ob_fork_owner *owner)
{
	struct ob_tap *tap = (struct ob_tap *)((char *)owner - offsetof(struct ob_tap, owner));

	for (int i = 0; i < OB_NET_QUEUES_MOST; i++) {
		ob_fork_owner_drop(&tap->queues[i].fd);
		ob_fork_owner_drop(&tap->queues[i].event);
		ob_fork_owner_drop(&tap->queues[i].waiting);
	}
}

static void release(struct ob_tap *tap)
{
	close_descriptors(&tap->owner);
	ob_fork_owner_remove(&tap->owner);
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

/* The child has closed the descriptors. */
static void forked(struct ob_net_backend *backend)
{
	free(backend);
}

static const struct ob_net_backend_operations operations = {
	.transmit = transmit,
	.set_features = set_features,
	.set_queues = set_queues,
	.poll = ob_tap_poll,
	.close = close_tap,
	.forked = forked,
};

static int watch(const struct ob_tap_queue *queue, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	return epoll_ctl(queue->waiting, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Opens what the thread sleeps on. A frame does not wake it yet. */
static int open_events(struct ob_tap_queue *queue)
{
	int error;

	queue->event = raw_eventfd();
	if (queue->event < 0)
		return -errno;
	queue->waiting = raw_epoll();
	if (queue->waiting < 0)
		return -errno;
	error = watch(queue, queue->event, EPOLLIN);
	return error ? error : watch(queue, queue->fd, EPOLLONESHOT);
}

static int start_thread(struct ob_tap_queue *queue)
{
	int error = open_events(queue);

	if (error)
		return error;
	error = ob_host_thread_create(queue->tap->host, ob_tap_work, queue, "outboard-tap",
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
		tap->queues[i].waiting = -1;
	}
	ob_fork_owner_add(&tap->owner, close_descriptors);
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
