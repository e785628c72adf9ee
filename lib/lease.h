/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The common part of the DHCP clients of IPv4 (dhcp.c) and IPv6 (dhcp6.c).
 *
 * The first lease comes on the thread of the program that asks for it, so that ob_interrupt() ends
 * the wait. Then a thread of the client's own keeps the lease. The thread has descriptors of its
 * own in the kernel: the program neither sees nor closes them.
 */
#ifndef OUTBOARD_LIB_LEASE_H
#define OUTBOARD_LIB_LEASE_H

#include <pthread.h>

#include "net_interface.h"
#include "netlink.h"

struct ob_lease_client;

/*
 * One version of DHCP. Times are those of ob_milliseconds(). Its functions run on the thread that
 * has the client, and return -EINTR after ob_lease_stop().
 */
struct ob_lease_protocol {
	enum ob_lease_kind kind;
	const char *word;		/* in reasons */
	const char *thread;		/* the thread's name */
	int (*open)(struct ob_lease_client *client);
	/* Gets a lease and configures the interface. 1; 0: none came before `end`; -errno. */
	int (*acquire)(struct ob_lease_client *client, uint64_t end);
	/* Keeps the lease. -EACCES: it was refused; -ETIMEDOUT: it has ended; -errno. */
	int (*keep)(struct ob_lease_client *client);
	/* Returns the lease to the server. */
	void (*release)(struct ob_lease_client *client);
	/* Removes what the lease has configured, if there is one. */
	void (*remove)(struct ob_lease_client *client);
};

/* The first member of the protocol's own structure. */
struct ob_lease_client {
	const struct ob_lease_protocol *protocol;
	struct ob_instance *instance;
	struct ob_net_interface *interface;
	struct ob_link link;
	int udp, packet;		/* sockets; -1: none */
	struct ob_netlink netlink;
	bool bound;			/* the interface has the lease */
	uint64_t bound_at;		/* when the lease began */

	/* Of the thread. */
	uint64_t thread;
	bool stop;			/* atomic */
	int task;			/* atomic; Linux's number of the thread, 0: none */
	pthread_mutex_t mutex;		/* of `ready` */
	pthread_cond_t changed;
	bool ready;			/* `task` and `error` are set */
	int error;			/* the thread has ended: it has no descriptors of its own */
};

/*
 * Makes a client of `bytes` bytes, which begin with struct ob_lease_client. `link`: the interface,
 * which is up. NULL: the reason and *error are set.
 */
void *ob_lease_new(const struct ob_lease_protocol *protocol, size_t bytes,
		   struct ob_instance *instance, struct ob_net_interface *interface,
		   const struct ob_link *link, int *error);

/*
 * Asks for a lease, at most `seconds` long, configures the interface with it, and starts the
 * thread. `is_needed`: without a lease the call fails; else the thread goes on asking. On failure
 * the interface is as before, the client is freed, and the reason is set. Blocks, without the mutex
 * of struct ob_net.
 */
int ob_lease_start(struct ob_lease_client *client, unsigned int seconds, bool is_needed);

/* ---- for protocols ---------------------------------------------------------------- */

uint32_t ob_lease_random(struct ob_lease_client *client);

/* Makes client->udp, bound to the address on this interface. 0 or -errno. */
int ob_lease_open_udp(struct ob_lease_client *client, const void *address, size_t bytes);
long ob_lease_set_option(struct ob_lease_client *client, int fd, int level, int option, int value);

/* Waits on a socket: 1 readable, 0 the time is over, -errno. */
int ob_lease_wait_readable(struct ob_lease_client *client, int fd, uint64_t end);
/* Packets that arrive between transactions need no answer. */
void ob_lease_drop_packets(struct ob_lease_client *client, int fd);
/* 0: the time is over; -errno. */
int ob_lease_sleep_until(struct ob_lease_client *client, uint64_t end);

/*
 * The end of the pause after so many tries: a second, doubled each time, up to about a minute.
 * With up to a quarter more or less, so that many clients do not ask at once.
 */
uint64_t ob_lease_pause(struct ob_lease_client *client, unsigned int tries);
/*
 * When to try again to extend a lease: after half of what is left, but not in less than a minute,
 * or an eighth of a short lease.
 */
uint64_t ob_lease_next_try(uint64_t end, uint32_t lease_seconds);
/* So many milliseconds after the lease began. */
uint64_t ob_lease_time(const struct ob_lease_client *client, uint64_t milliseconds);

static inline uint64_t ob_lease_earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The name servers of the lease; none: count is 0. */
void ob_lease_set_servers(struct ob_lease_client *client, const struct ob_net_servers *servers);

#endif
