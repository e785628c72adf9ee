/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The two halves of the tap back-end:
 *
 *   tap.c	frames and threads
 *   tap_open.c	finds, opens and tests an interface, and says why it cannot
 */
#ifndef OUTBOARD_POSIX_NET_TAP_H
#define OUTBOARD_POSIX_NET_TAP_H

#include <net/if.h>

#include "backend.h"
#include "spin.h"

struct ob_tap_queue {
	struct ob_tap *tap;
	unsigned int number;
	int fd;			/* of the tap; -1: not open */
	int event;		/* an eventfd that ends the thread's sleep; -1: not open */
	bool has_thread;
	uint64_t thread;
	struct ob_spin spin;
	bool wanted;		/* the kernel uses this queue; atomic */
	bool attached;		/* the interface uses this queue; atomic */
};

struct ob_tap {
	struct ob_net_backend backend;
	struct ob_host *host;
	struct ob_net_port *port;
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

#endif
