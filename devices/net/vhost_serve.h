/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A port of a hub as the back-end of vhost-user: one front-end at a time has the port.
 *
 * The port is the network device of device.c, whose driver is the front-end's guest instead of the
 * kernel of this process. All messages, and all memory, are a stranger's: each message is a copy,
 * each number in it is checked, and a wrong one ends the connection.
 */
#ifndef OUTBOARD_DEVICES_NET_VHOST_SERVE_H
#define OUTBOARD_DEVICES_NET_VHOST_SERVE_H

#include "bell.h"
#include "device.h"
#include "vhost_user.h"

#define OB_SERVER_QUEUES 2

/* The front-end's memory, as far as it is mapped. */
struct ob_server_memory {
	struct ob_virtqueue_memory parts;	/* by the addresses of its guest */
	uint64_t user[OB_VIRTQUEUE_PARTS];	/* addresses of the same parts in the front-end */
	struct {
		void *start;
		size_t size;
	} mappings[OB_VIRTQUEUE_PARTS];
};

struct ob_server_queue {
	uint32_t size;
	uint16_t base;
	bool has_rings, enabled;
	struct ob_vhost_rings rings;
	int kick;			/* an eventfd; -1: none */
	struct ob_bell call;		/* open while the queues run */
	const struct vring_used *used;	/* while the queues run */
};

struct ob_net_server {
	struct ob_host *host;
	char *hub, *path;
	uint32_t mtu;
	void (*log)(void *context, const char *line);	/* may be NULL; atomic */
	void *log_context;
	int listener, event;
	int opener;			/* a socket of the process that opens files; -1: this one */
	bool is_started;
	uint64_t thread;
	uint32_t ended;			/* the thread is about to end; atomic */
	bool stopping;			/* atomic */
	bool is_stuck;			/* a thread of the port rings for ever: all stays */
	struct ob_net_server *next;	/* of this process; vhost_serve.c */
	/* Of the thread, while a front-end is connected. */
	int socket;			/* -1: none is */
	struct ob_virtio_device *device;
	struct ob_net_port *port;
	struct ob_server_memory memory;
	struct ob_server_queue queues[OB_SERVER_QUEUES];
	uint64_t protocol;		/* features of the protocol */
	bool has_features;		/* the front-end has accepted features */
	bool enables;			/* it enables queues one by one */
	bool running;
	bool has_dropped;		/* frames, which the log has */
};

/* vhost_serve_log.c: logs a line about the socket. */
void ob_server_say(struct ob_net_server *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* vhost_serve_dialogue.c: interrupts the front-end's guest. For the server's thread. */
void ob_server_ring(struct ob_net_server *s, unsigned int queue);

/* vhost_serve_memory.c: maps the regions. NULL, or the reason; then there are none. */
const char *ob_server_memory_map(struct ob_server_memory *memory,
				 const struct ob_vhost_memory *table, const int *fds);
void ob_server_memory_unmap(struct ob_server_memory *memory);
/* Stores the guest's address of what the front-end has at `user`. False: it is not mapped. */
bool ob_server_memory_find(const struct ob_server_memory *memory, uint64_t user, uint64_t *address);

/* vhost_serve_dialogue.c: serves one connected front-end, until it has gone. */
void ob_server_front_end(struct ob_net_server *s);
/* Closes the descriptors of queues and connection. */
void ob_server_close_descriptors(struct ob_net_server *s);

#endif
