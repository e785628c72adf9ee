// SPDX-License-Identifier: GPL-2.0-only
/* A network device without a kernel: see net_port.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "net_host.h"
#include "net_port.h"

void port_init(struct ob_net_port *port, unsigned int buffers, size_t buffer_size,
	       port_frame *receive, void *context)
{
	memset(port, 0, sizeof(*port));
	port->buffers = buffers;
	port->buffer_size = buffer_size;
	port->frame_most = OB_NET_FRAME_MOST;
	port->receive = receive;
	port->context = context;
	for (int i = 0; i < OB_NET_QUEUES_MOST; i++) {
		struct port_queue *queue = &port->queues[i];

		queue->memory = malloc(buffers * buffer_size);
		CHECK(queue->memory);
		queue->free = buffers;
		pthread_mutex_init(&queue->mutex, NULL);
		pthread_cond_init(&queue->changed, NULL);
	}
}

void port_free(struct ob_net_port *port)
{
	for (int i = 0; i < OB_NET_QUEUES_MOST; i++)
		free(port->queues[i].memory);
}

void port_release(struct ob_net_port *port, unsigned int queue)
{
	struct port_queue *q = &port->queues[queue];

	pthread_mutex_lock(&q->mutex);
	port->hold = false;
	q->free = port->buffers;
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->mutex);
}

uint64_t port_frames(struct ob_net_port *port, unsigned int queue)
{
	return __atomic_load_n(&port->queues[queue].frames, __ATOMIC_ACQUIRE);
}

bool port_wait(struct ob_net_port *port, unsigned int queue, uint64_t frames, int milliseconds)
{
	struct timespec pause = { .tv_nsec = 200000 };

	for (int i = 0; i < milliseconds * 5; i++) {
		if (port_frames(port, queue) >= frames)
			return true;
		nanosleep(&pause, NULL);
	}
	return port_frames(port, queue) >= frames;
}

void port_copy(void *to, const struct iovec *pieces, size_t offset, size_t size)
{
	char *at = to;

	for (; size; pieces++) {
		size_t part;

		if (offset >= pieces->iov_len) {
			offset -= pieces->iov_len;
			continue;
		}
		part = pieces->iov_len - offset < size ? pieces->iov_len - offset : size;
		memcpy(at, (char *)pieces->iov_base + offset, part);
		at += part;
		size -= part;
		offset = 0;
	}
}

/* ---- what back-ends call ---------------------------------------------------- */

int ob_net_receive_begin(struct ob_net_port *port, unsigned int queue, size_t size,
			 struct iovec pieces[OB_NET_PIECES_MOST])
{
	struct port_queue *q = &port->queues[queue];
	unsigned int available, count = 0;
	size_t room = 0;

	if (size > port->frame_most)
		size = port->frame_most;
	pthread_mutex_lock(&q->mutex);
	CHECK_EQUAL(q->given, 0);
	available = q->free;
	pthread_mutex_unlock(&q->mutex);
	while (room < size && count < available && count < OB_NET_PIECES_MOST) {
		unsigned int buffer = (q->first + count) % port->buffers;

		q->pieces[count].iov_base = q->memory + buffer * port->buffer_size;
		q->pieces[count].iov_len = port->buffer_size;
		if (!count && port->first_piece)
			q->pieces[count].iov_len = port->first_piece;
		room += q->pieces[count++].iov_len;
	}
	if (room < size && size != OB_NET_FRAME_MOST)
		return 0;
	q->given = count;
	memcpy(pieces, q->pieces, count * sizeof(*pieces));
	return (int)count;
}

void ob_net_receive_end(struct ob_net_port *port, unsigned int queue, size_t length)
{
	struct port_queue *q = &port->queues[queue];
	unsigned int used = 0;

	CHECK(q->given > 0);
	for (size_t room = 0; room < length; used++) {
		CHECK(used < q->given);
		room += q->pieces[used].iov_len;
	}
	q->given = 0;
	if (!length)
		return;
	if (port->receive)
		port->receive(port->context, queue, q->pieces, (int)used, length);
	q->bytes += length;
	q->unflushed++;
	pthread_mutex_lock(&q->mutex);
	if (port->hold) {
		q->first = (q->first + used) % port->buffers;
		q->free -= used;
	}
	pthread_mutex_unlock(&q->mutex);
	__atomic_add_fetch(&q->frames, 1, __ATOMIC_RELEASE);
}

void ob_net_receive_flush(struct ob_net_port *port, unsigned int queue)
{
	struct port_queue *q = &port->queues[queue];

	q->flushes += q->unflushed > 0;
	q->unflushed = 0;
}

/* This device takes all frames as they are. */
int ob_net_receive_rest(struct ob_net_port *port, unsigned int queue)
{
	(void)port;
	(void)queue;
	return 0;
}

size_t ob_net_receive_lacks(struct ob_net_port *port, unsigned int queue)
{
	return port->queues[queue].lacking;
}

int ob_net_receive(struct ob_net_port *port, unsigned int queue, const struct iovec *pieces,
		   int count)
{
	struct iovec to[OB_NET_PIECES_MOST];
	size_t length = 0, done = 0;

	for (int i = 0; i < count; i++)
		length += pieces[i].iov_len;
	port->queues[queue].lacking = length;
	if (!ob_net_receive_begin(port, queue, length, to))
		return -ENOBUFS;
	for (int i = 0; done < length; i++) {
		size_t part = to[i].iov_len < length - done ? to[i].iov_len : length - done;

		port_copy(to[i].iov_base, pieces, done, part);
		done += part;
	}
	ob_net_receive_end(port, queue, length);
	return 0;
}

size_t ob_net_frame_most(const struct ob_net_port *port)
{
	return port->frame_most;
}

void ob_net_port_link(struct ob_net_port *port, bool is_up)
{
	(void)port;
	net_host_print("link %s\n", is_up ? "up" : "down");
}

bool ob_net_receive_wait(struct ob_net_port *port, unsigned int queue, size_t size)
{
	struct port_queue *q = &port->queues[queue];
	bool stopped;

	__atomic_add_fetch(&port->waits, 1, __ATOMIC_SEQ_CST);
	/* A thread that blocks has reported its frames. */
	CHECK_EQUAL(q->unflushed, 0);
	pthread_mutex_lock(&q->mutex);
	while (!port->stopped && q->free < port->buffers && q->free * port->buffer_size < size)
		pthread_cond_wait(&q->changed, &q->mutex);
	stopped = port->stopped;
	pthread_mutex_unlock(&q->mutex);
	return !stopped;
}

void ob_net_port_stop(struct ob_net_port *port)
{
	for (int i = 0; i < OB_NET_QUEUES_MOST; i++) {
		struct port_queue *q = &port->queues[i];

		pthread_mutex_lock(&q->mutex);
		port->stopped = true;
		pthread_cond_broadcast(&q->changed);
		pthread_mutex_unlock(&q->mutex);
	}
}
