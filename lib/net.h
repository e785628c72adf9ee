/* SPDX-License-Identifier: GPL-2.0-only */
/* The network interfaces of an instance that this library has configured. */
#ifndef OUTBOARD_LIB_NET_H
#define OUTBOARD_LIB_NET_H

#include <pthread.h>
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
 * The kernel has halted: waits for the threads of DHCP clients, whose calls fail now, and closes
 * the devices.
 */
void ob_net_halted(struct ob_instance *instance);

#endif
