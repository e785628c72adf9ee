/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of the tap back-end:
 *
 *   tap.c		sends frames; starts and ends
 *   tap_receive.c	who receives: the queue's thread, or one that waits for the kernel
 *   tap_open.c		finds, opens and tests an interface, and says why it cannot
 */
#ifndef OUTBOARD_DEVICES_NET_TAP_H
#define OUTBOARD_DEVICES_NET_TAP_H

#include <net/if.h>

#include "fork_owner.h"
#include "backend.h"
#include "spin.h"
#include "taker.h"

/*
 * One queue, and its taker (taker.h). A tap is armed by a one-shot event of epoll. After a change
 * to TAKER_NOBODY the same thread arms the tap, which finds a frame that is there. A wake-up that
 * comes too late finds another taker, who arms the tap again.
 *
 * The tap stays with threads that poll after a last look, too, if frames came in their last waits
 * (`streak`). The queue's thread does not leave the tap to them if one has gone to sleep since the
 * last frame came (`left`).
 */
struct ob_tap_queue {
	struct ob_tap *tap;
	unsigned int number;
	int fd;			/* of the tap; -1: not open */
	int event;		/* an eventfd that ends the thread's sleep; -1: not open */
	int waiting;		/* an epoll instance of both; -1: not open */
	bool has_thread;
	uint64_t thread;
	struct ob_spin spin;
	bool wanted;		/* the kernel uses this queue; atomic */
	bool attached;		/* the interface uses this queue; atomic */
	bool called;		/* the thread has got a notice; atomic */
	bool left;		/* a thread went to sleep since the last frame came; atomic */
	struct ob_taker taker;
	/* Of the taker. */
	uint32_t looks;		/* of threads that poll; atomic */
	uint32_t streak;	/* waits of such threads, since one in which no frame came */
	bool polled;		/* a frame came in this wait */
	bool staying;		/* TAKER_POLLERS, although none may be there; atomic */
};

struct ob_tap {
	struct ob_net_backend backend;
	struct ob_host *host;
	struct ob_net_port *port;
	struct ob_fork_owner owner;	/* of the queues' descriptors */
	char name[IFNAMSIZ];		/* "" if the host does not report it */
	struct ob_tap_queue queues[OB_NET_QUEUES_MOST];
	bool is_given;		/* the program has descriptors of these queues, too */
	uint64_t features;	/* that the kernel's driver has accepted; atomic */
	uint32_t features_set;	/* counts calls of set_features(); atomic */
	uint32_t features_done;	/* the last call that the host's offloads follow; atomic */
	bool stopping;		/* atomic */
};

/*
 * tap_open.c: opens all queues of the interface, and sets the back-end's offloads, mtu and queues.
 * Errors as ob_net_open; the caller closes what is open then.
 */
int ob_tap_open_interface(struct ob_tap *tap, const struct ob_net_request *request, char *error,
			  size_t error_size);
/*
 * The host's TUNSETOFFLOAD for features VIRTIO_NET_F_*. 0 or -errno. This and the next function may
 * wait for the host's network lock (RTNL), so no thread with a vCPU calls them.
 */
int ob_tap_set_offloads(struct ob_tap *tap, uint64_t features);
/* Attaches the queue to the interface, or detaches it. 0 or -errno. */
int ob_tap_attach(struct ob_tap_queue *queue, bool attach);

/* tap_receive.c: what the queue's thread runs. Takes the queue. */
void ob_tap_work(void *queue);
/* A state of the queue has changed: wakes its thread. Does not block. */
void ob_tap_notify(struct ob_tap_queue *queue);
void ob_tap_notify_all(struct ob_tap *tap);
/* The back-end's operation. */
void ob_tap_poll(struct ob_net_backend *backend, bool is_last);

#endif
