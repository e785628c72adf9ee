/* SPDX-License-Identifier: GPL-2.0-only */
/* The control queue of a network device with several queue pairs. */
#ifndef OUTBOARD_DEVICES_NET_CONTROL_H
#define OUTBOARD_DEVICES_NET_CONTROL_H

#include "../virtqueue.h"

/* The driver uses the first `pairs` queue pairs. 0 or an error. Never blocks. */
typedef int ob_net_set_pairs(void *context, unsigned int pairs);

/*
 * Answers the commands in the queue. The only command on offer sets the number of queue pairs, 1 to
 * `most`. Rules for threads are those of the queue.
 */
void ob_net_control(struct ob_virtqueue *ring, unsigned int most, ob_net_set_pairs *set_pairs,
		    void *context);

#endif
