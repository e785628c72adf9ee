/* SPDX-License-Identifier: GPL-2.0-only */
/* The network interfaces of an instance that this library has configured. */
#ifndef OUTBOARD_LIB_NET_H
#define OUTBOARD_LIB_NET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct ob_instance;
struct ob_net_interface;

/* A file of the kernel that this library has made. */
struct ob_net_file {
	uint64_t device, inode;		/* both 0: there is none */
	int64_t seconds;		/* when it was written */
	uint64_t nanoseconds;
};

struct ob_net {
	pthread_mutex_t mutex;
	pthread_cond_t idle;		/* an interface is not busy any more */
	struct ob_net_interface *interfaces;
	struct ob_net_file servers;	/* /etc/resolv.conf */
};

#define OB_NO_NET { .mutex = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER }

/*
 * The kernel has halted: waits for calls that change interfaces, and for the threads of DHCP
 * clients, whose calls of the kernel fail now. False: some do not come back, and may still use the
 * instance. `is_stuck`: the halt has left threads in the kernel, and such calls may be theirs.
 */
bool ob_net_halted(struct ob_instance *instance, bool is_stuck);

#endif
