// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rootless NAT by libslirp, in this process.
 *
 * libslirp belongs to one thread, which runs its loop: frames of the kernel, sockets of the host,
 * timers. The kernel's thread puts frames into a ring, each behind its length, and wakes the loop
 * by an eventfd if the loop is in poll(). A frame that does not fit is dropped. If the kernel has
 * no room for a frame of libslirp, the loop waits.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deliver.h"
#include "internal.h"
#include "pieces.h"
#include "raw.h"
#include "report.h"
#include "ring.h"
#include "user_slirp_loop.h"

/* Frames of the kernel in one turn of the loop. */
#define TURN_FRAMES 64

struct slirp {
	struct ob_net_backend backend;
	struct ob_host *host;
	struct ob_net_port *port;
	uint64_t thread;
	struct ob_net_ring frames;	/* of the kernel */
	int event;
	bool sleeping;			/* the loop is in poll(), or about to be; atomic */
	bool ending;			/* atomic */
	/* Of the loop. */
	struct ob_slirp nat;
	bool is_stopped;		/* the kernel takes no more frames */
	unsigned char frame[OB_NET_ETHERNET_MOST];
};

/* ---- from the kernel ------------------------------------------------------ */

static int transmit(struct ob_net_backend *backend, unsigned int queue,
		    const struct iovec *pieces, int count)
{
	struct slirp *slirp = (struct slirp *)backend;
	struct iovec parts[1 + OB_NET_PIECES_MOST];
	uint32_t length;

	(void)queue;
	if (count > OB_NET_PIECES_MOST)
		return -EMSGSIZE;
	count = ob_net_pieces_skip(pieces, count, OB_NET_HEADER_BYTES, parts + 1);
	length = (uint32_t)ob_net_pieces_length(parts + 1, count);
	if (length < OB_NET_ETHERNET_BYTES || length > OB_NET_ETHERNET_MOST)
		return -EMSGSIZE;
	parts[0] = (struct iovec){ &length, sizeof(length) };
	return ob_net_ring_put(&slirp->frames, parts, count + 1) ? 0 : -ENOBUFS;
}

static void wake(struct slirp *slirp)
{
	const uint64_t one = 1;

	raw_write(slirp->event, &one, sizeof(one));
}

static void transmit_end(struct ob_net_backend *backend, unsigned int queue)
{
	struct slirp *slirp = (struct slirp *)backend;

	(void)queue;
	/* Either this sees that the loop sleeps, or the loop sees the frames. */
	if (__atomic_load_n(&slirp->sleeping, __ATOMIC_SEQ_CST) &&
	    __atomic_exchange_n(&slirp->sleeping, false, __ATOMIC_SEQ_CST))
		wake(slirp);
}

/* ---- the loop ------------------------------------------------------------- */

static void deliver(void *opaque, const void *frame, size_t length)
{
	struct slirp *slirp = opaque;

	if (!slirp->is_stopped)
		slirp->is_stopped = !ob_net_deliver(slirp->port, slirp->backend.mtu, frame, length);
}

/* Passes frames of the kernel to libslirp. */
static void take_frames(struct slirp *slirp)
{
	for (int i = 0; i < TURN_FRAMES && !ob_net_ring_is_empty(&slirp->frames); i++) {
		uint32_t length;

		ob_net_ring_copy(&slirp->frames, &length, sizeof(length));
		ob_net_ring_copy(&slirp->frames, slirp->frame, length);
		ob_slirp_input(&slirp->nat, slirp->frame, length);
	}
}

static bool is_ending(const struct slirp *slirp)
{
	return slirp->is_stopped || __atomic_load_n(&slirp->ending, __ATOMIC_SEQ_CST);
}

/* Sleeps for a socket, a timer or a frame. Returns poll()'s result. */
static int sleep_for_events(struct slirp *slirp, int timeout)
{
	uint64_t events;
	int result;

	__atomic_store_n(&slirp->sleeping, true, __ATOMIC_SEQ_CST);
	if (!ob_net_ring_is_empty(&slirp->frames) || is_ending(slirp))
		timeout = 0;
	result = raw_poll(slirp->nat.fds, (nfds_t)slirp->nat.fd_count, timeout);
	__atomic_store_n(&slirp->sleeping, false, __ATOMIC_SEQ_CST);
	/* The eventfd is the first one. */
	if (result > 0 && slirp->nat.fds[0].revents)
		raw_read(slirp->event, &events, sizeof(events));
	return result;
}

static void loop(void *pointer)
{
	struct slirp *slirp = pointer;

	while (!is_ending(slirp)) {
		int timeout;

		if (!ob_slirp_prepare(&slirp->nat, slirp->event, &timeout)) {
			ob_net_warn(slirp->host, "net user: libslirp has no memory; the interface "
				    "has no link, add it again to have one");
			ob_net_port_link(slirp->port, false);
			break;
		}
		ob_slirp_work(&slirp->nat, sleep_for_events(slirp, timeout) < 0);
		take_frames(slirp);
		ob_slirp_run_timers(&slirp->nat);
		ob_net_receive_flush(slirp->port, 0);
	}
}

/* ---- open and close ------------------------------------------------------- */

static void free_ours(struct slirp *slirp)
{
	if (slirp->event >= 0)
		raw_close(slirp->event);
	ob_net_ring_free(&slirp->frames);
	free(slirp);
}

static void free_slirp(struct slirp *slirp)
{
	ob_slirp_close(&slirp->nat);
	free_ours(slirp);
}

static void close_slirp(struct ob_net_backend *backend)
{
	struct slirp *slirp = (struct slirp *)backend;

	__atomic_store_n(&slirp->ending, true, __ATOMIC_SEQ_CST);
	ob_net_port_stop(slirp->port);
	wake(slirp);
	ob_host_thread_join(slirp->host, slirp->thread);
	free_slirp(slirp);
}

static void forked(struct ob_net_backend *backend)
{
	struct slirp *slirp = (struct slirp *)backend;

	ob_slirp_forked(&slirp->nat);
	free_ours(slirp);
}

static const struct ob_net_backend_operations operations = {
	.transmit = transmit,
	.transmit_end = transmit_end,
	.close = close_slirp,
	.forked = forked,
};

/* Returns an error. */
static int new_slirp(struct ob_host *host, struct ob_net_port *port, uint32_t mtu,
		     struct slirp **made)
{
	struct slirp *slirp = aligned_alloc(64, (sizeof(*slirp) + 63) / 64 * 64);
	int error = 0;

	if (!slirp)
		return -ENOMEM;
	memset(slirp, 0, sizeof(*slirp));
	slirp->backend = (struct ob_net_backend){ &operations, 0, mtu, 1 };
	slirp->host = host;
	slirp->port = port;
	slirp->nat.send = deliver;
	slirp->nat.opaque = slirp;
	slirp->event = raw_eventfd();
	if (slirp->event < 0)
		error = -errno;
	else if (ob_net_ring_init(&slirp->frames, OB_USER_BACKLOG_BYTES))
		error = -ENOMEM;
	if (error)
		free_ours(slirp);
	else
		*made = slirp;
	return error;
}

int ob_user_slirp_open(struct ob_host *host, struct ob_net_port *port,
		       const struct ob_user_options *options, struct ob_net_backend **backend,
		       char *error, size_t error_size)
{
	const struct ob_slirp_library *library;
	struct slirp *slirp;
	int result = ob_slirp_load(&library);

	if (result == -ENOENT)
		return result;
	if (!result)
		result = new_slirp(host, port, options->mtu, &slirp);
	if (result) {
		snprintf(error, error_size, "net user: libslirp cannot start: %s",
			 strerrordesc_np(-result));
		return result;
	}
	result = ob_slirp_open(&slirp->nat, options, error, error_size);
	if (!result) {
		result = ob_host_thread_create(host, loop, slirp, "outboard-slirp", &slirp->thread);
		if (result)
			snprintf(error, error_size, "net user: the host has no more threads");
	}
	if (result) {
		free_slirp(slirp);
		return result;
	}
	*backend = &slirp->backend;
	return 0;
}
