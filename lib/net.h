/* SPDX-License-Identifier: GPL-2.0-only */
/* The network interfaces of an instance that this library has configured. */
#ifndef OUTBOARD_LIB_NET_H
#define OUTBOARD_LIB_NET_H

#include <pthread.h>

struct ob_instance;
struct ob_net_interface;

struct ob_net {
	pthread_mutex_t mutex;
	pthread_cond_t idle;		/* an interface is not busy any more */
	struct ob_net_interface *interfaces;
};

#define OB_NO_NET { .mutex = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER }

/*
 * The kernel has halted: waits for the threads of DHCP clients, whose calls fail now, and closes
 * the devices.
 */
void ob_net_halted(struct ob_instance *instance);

#endif
