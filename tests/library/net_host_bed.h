/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The common part of the tests of the host's sockets: the kernel and the host as two stacks with
 * the same calls, connections between the stacks, and threads that wait. Link with net_host_bed.c.
 */
#ifndef OUTBOARD_TESTS_NET_HOST_BED_H
#define OUTBOARD_TESTS_NET_HOST_BED_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "client.h"

#define PIECE 65536

struct stack {
	long (*socket)(int family, int type, int protocol);
	long (*bind)(int fd, struct sockaddr *address, int size);
	long (*connect)(int fd, struct sockaddr *address, int size);
	long (*listen)(int fd, int backlog);
	long (*accept)(int fd, struct sockaddr *address, int *size);
	long (*name)(int fd, struct sockaddr *address, int *size);
	long (*peer)(int fd, struct sockaddr *address, int *size);
	long (*send)(int fd, void *bytes, size_t size, unsigned int flags,
		     struct sockaddr *address, int room);
	long (*receive)(int fd, void *bytes, size_t size, unsigned int flags,
			struct sockaddr *address, int *room);
	long (*close)(unsigned int fd);
};

extern const struct stack kernel, host;

/* One end of a connection. */
struct end {
	const struct stack *stack;
	int fd;
};

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/* A call that fails. */
#define FAILS(call, number)				\
	do {						\
		CHECK_EQUAL(call, -1);			\
		CHECK_EQUAL(errno, number);		\
	} while (0)

/* Bytes of an address of a family. */
int size_of(int family);

union address loopback(int family);

/* Does the host have IPv6 on loopback? */
bool has_ipv6(void);

/* A socket at a free port of loopback, and its address. */
int bound(const struct stack *stack, int family, int type, union address *address);

/* The same, as a TCP socket that listens. */
int listening(const struct stack *stack, int family, union address *address);

/* A connection of the two stacks: the server's end is the first. */
void connected(const struct stack *server, const struct stack *client, int family,
	       struct end ends[2]);

void close_both(struct end ends[2]);

/* Checked streams of so many bytes, in both directions at once. */
void exchange(const struct end ends[2], uint64_t bytes);

/* SO_ERROR of a socket of the kernel. */
int error_of(int fd);

/* ---- threads that wait ---------------------------------------------------------- */

struct waiter {
	pthread_t thread;
	int fd;
	volatile long number;
	int (*call)(int fd);		/* returns errno, or 0 */
	int result;
};

/* Starts a thread, and waits until it sleeps in its call. */
void start(struct waiter *waiter, int fd, int (*call)(int fd));

/* Waits for the end of its call. Returns the result. */
int finish(struct waiter *waiter);

/* A call for a waiter: receives one byte. Returns 1000 if it has got it. */
int receive_one(int fd);

/* ---- the cases, by subject: net_host_SUBJECT.c ----------------------------------- */

/* Streams, datagrams, messages of several pieces, memory of all kinds. */
void test_transfers(uint64_t bytes);

/* Connections that come about, are refused, take long, end. */
void test_connections(void);

/* Interrupts, other threads, poll, epoll. */
void test_waits(void);

/* Options, control messages, ICMP echo. */
void test_options(void);

#endif
