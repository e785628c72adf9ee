/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A network device without a kernel: implements the functions of devices/net/backend.h that
 * back-ends call. Buffers are as Linux's driver gives them: many pieces of some kilobytes. Links
 * with net_port.c and net_host.c.
 */
#ifndef OUTBOARD_TESTS_NET_PORT_H
#define OUTBOARD_TESTS_NET_PORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/backend.h"

/* Receives a frame on a thread of the back-end. The pieces are valid until it returns. */
typedef void port_frame(void *context, unsigned int queue, const struct iovec *pieces, int count,
			size_t length);

struct port_queue {
	char *memory;
	unsigned int first, free;	/* buffers that the back-end may fill; guarded by mutex */
	unsigned int given;		/* buffers since the last begin */
	struct iovec pieces[OB_NET_PIECES_MOST];
	uint64_t frames, bytes, flushes, unflushed;
	size_t lacking;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
};

struct ob_net_port {
	unsigned int buffers;		/* of each queue */
	size_t buffer_size;
	size_t first_piece;		/* bytes of each frame's first buffer; 0: all */
	bool hold;			/* buffers stay full until port_release() */
	bool stopped;
	size_t frame_most;		/* that the kernel's driver takes */
	uint64_t waits;			/* calls of ob_net_receive_wait(); atomic */
	port_frame *receive;		/* may be NULL */
	void *context;
	struct port_queue queues[OB_NET_QUEUES_MOST];
};

void port_init(struct ob_net_port *port, unsigned int buffers, size_t buffer_size,
	       port_frame *receive, void *context);
void port_free(struct ob_net_port *port);
/* The kernel gives back all buffers of the queue, and holds no buffers from now on. */
void port_release(struct ob_net_port *port, unsigned int queue);
/* Frames that came so far. */
uint64_t port_frames(struct ob_net_port *port, unsigned int queue);
/* Waits for so many frames in all; false after the number of milliseconds. */
bool port_wait(struct ob_net_port *port, unsigned int queue, uint64_t frames, int milliseconds);

/* Copies bytes out of pieces. */
void port_copy(void *to, const struct iovec *pieces, size_t offset, size_t size);

#endif
