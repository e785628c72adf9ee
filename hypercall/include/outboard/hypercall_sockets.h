/* SPDX-License-Identifier: GPL-2.0-only */
/* Hypercalls of one optional group. The rules of hypercall.h hold. */
#ifndef OUTBOARD_HYPERCALL_SOCKETS_H
#define OUTBOARD_HYPERCALL_SOCKETS_H

#include <outboard/hypercall.h>

/*
 * The host's own sockets: TCP, UDP and ICMP echo, of IPv4 and IPv6. The kernel offers them to its
 * clients and to its own code when the program asks for that: ob_kernel_sockets(). A host may lack
 * this group: then that fails.
 *
 * Numbers of families, types, protocols, options, flags and events are Linux's for x86-64. So are
 * the layouts of addresses, of values of options and of control messages. A platform on another
 * host translates them, and refuses what it cannot translate.
 *
 *   begin --> open ----> bind, connect, listen, send, receive, watch ... --> close --> end
 *         `-> accept -'
 *
 * A socket is a number (>= 0). Calls with an unknown number fail with -EBADF. Memory of a call is
 * RAM, or memory of the program: -EFAULT if the host cannot access it now. No call waits: what
 * would wait on the host fails with -EAGAIN, or -EINPROGRESS for a connect. No call raises a signal
 * of the host. Other errors are the host's. The caller's interrupts may be off.
 */

/* Events of a socket, with Linux's numbers of poll(). */
enum ob_socket_events {
	OB_SOCKET_IN = 0x1,
	OB_SOCKET_PRI = 0x2,
	OB_SOCKET_OUT = 0x4,
	OB_SOCKET_ERR = 0x8,
	OB_SOCKET_HUP = 0x10,
	OB_SOCKET_RDHUP = 0x2000,
};

struct ob_socket_event {
	uint32_t socket;
	uint32_t events;		/* enum ob_socket_events */
};

/* Most pieces of memory in a message. */
#define OB_SOCKET_PARTS 32

struct ob_socket_part {
	void *address;
	uint64_t length;
};

struct ob_socket_message {
	const struct ob_socket_part *parts;
	void *address;			/* of the other side; NULL: none */
	void *control;			/* control messages; NULL: none */
	uint32_t part_count;		/* at most OB_SOCKET_PARTS */
	uint32_t address_size;		/* bytes; ob_host_socket_receive() sets it */
	uint32_t control_size;		/* the same */
	uint32_t flags;			/* MSG_...; ob_host_socket_receive() sets it */
};

/* Prepares for sockets. -EAGAIN, -EMFILE, -ENOMEM. Never called with a vCPU held. Blocks. */
int ob_host_sockets_begin(struct ob_host *host);

/*
 * Closes all sockets, and ends what ob_host_sockets_begin() has made. Only after every vCPU has
 * stopped. Without a begin it does nothing. Blocks.
 */
void ob_host_sockets_end(struct ob_host *host);

/* Opens a socket. Returns its number. -EMFILE: the host has no more. */
int ob_host_socket_open(struct ob_host *host, uint32_t family, uint32_t type, uint32_t protocol);

/* Closes a socket. Data that it has not sent yet stay with the host, which still sends them. */
void ob_host_socket_close(struct ob_host *host, uint32_t socket);

int ob_host_socket_bind(struct ob_host *host, uint32_t socket, const void *address, uint32_t size);
int ob_host_socket_connect(struct ob_host *host, uint32_t socket, const void *address,
			   uint32_t size);
int ob_host_socket_listen(struct ob_host *host, uint32_t socket, uint32_t backlog);

/* Takes a connection that waits. Returns the number of its socket. */
int ob_host_socket_accept(struct ob_host *host, uint32_t socket);

/* `how`: 0 receiving, 1 sending, 2 both. */
int ob_host_socket_shutdown(struct ob_host *host, uint32_t socket, uint32_t how);

/* Stores the socket's address, or with `peer` the other side's. `*size`: room, then bytes. */
int ob_host_socket_name(struct ob_host *host, uint32_t socket, uint32_t peer, void *address,
			uint32_t *size);

/*
 * The kernel never passes an option whose value names a file, a process or an address of memory,
 * nor SO_LINGER with a time: a close of the host could then wait.
 */
int ob_host_socket_option_get(struct ob_host *host, uint32_t socket, uint32_t level, uint32_t name,
			      void *value, uint32_t *size);
int ob_host_socket_option_set(struct ob_host *host, uint32_t socket, uint32_t level, uint32_t name,
			      const void *value, uint32_t size);

/* Return the bytes that were sent or received. */
int64_t ob_host_socket_send(struct ob_host *host, uint32_t socket,
			    const struct ob_socket_message *message);
int64_t ob_host_socket_receive(struct ob_host *host, uint32_t socket,
			       struct ob_socket_message *message);

/* Bytes that wait; 1 or 0 for the mark of urgent data. */
enum ob_socket_queue { OB_SOCKET_RECEIVED, OB_SOCKET_UNSENT, OB_SOCKET_AT_MARK };
int ob_host_socket_queued(struct ob_host *host, uint32_t socket, enum ob_socket_queue queue);

/* Returns what the socket is ready for now. */
int ob_host_socket_ready(struct ob_host *host, uint32_t socket);

/*
 * Watches a socket until it is ready for one of the events, for OB_SOCKET_ERR or OB_SOCKET_HUP: now
 * or later. Then there is an event for ob_host_socket_take(), and the socket is not watched any
 * more. A call replaces the events of an earlier one.
 */
int ob_host_socket_watch(struct ob_host *host, uint32_t socket, uint32_t events);

/*
 * Takes up to `count` events, and returns how many. The host raises OB_INTERRUPT_SOCKETS when there
 * are new ones. An event may be late: its socket may have been closed. One call at a time.
 */
uint32_t ob_host_socket_take(struct ob_host *host, struct ob_socket_event events[],
			     uint32_t count);

#endif
