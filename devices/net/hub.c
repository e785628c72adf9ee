// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network: "hub:/PATH", an Ethernet segment in shared memory, for processes of one user.
 *
 * Each port has memory of its own, in two sealed files without names:
 *
 *   memory	the control page: positions, and whether anybody looks for frames; then a ring
 *		to each other port. The owner writes, the other ports have it mapped for reading.
 *   bell	a futex that wakes the owner's thread. All ports write.
 *
 * The file at PATH says where the memory of each port is: a process and its descriptors. The other
 * ports open these through /proc. The file's locks say which ports are in use (hub_file.c).
 *
 * A frame from A to B:
 *
 *   thread	in memory of	does
 *   A's client	A		writes the frame into the ring A to B, then links[B].sent
 *   A's client	B's bell	changes it and wakes, if B's control says so
 *   B's taker	B's kernel	copies the frame, then B writes links[A].taken
 *
 * The taker is B's thread, or a client's thread that waits in B's kernel anyway (taker.h).
 *
 * A writes no further than RING_BYTES beyond B's links[A].taken. If there is no room, A drops the
 * frame. A sends to the port that has the destination's address, or else to all (hub_learn.c).
 *
 * The life of a link: both sides write the number of the other port into their links[] when they
 * map its memory, with both positions 0. A side's positions count when its links[] has the reader's
 * number. So a new user of a port never sees positions that were its predecessor's. A port can send
 * as soon as it has the receiver's memory: the receiver starts at position 0.
 *
 * Invariants:
 *  H1	A port writes to its own memory only, and to bells. So a port that ends at any instruction,
 *	or that misbehaves, changes nothing that two other ports say to each other.
 *  H2	Memory that is mapped never shrinks: it is sealed before anybody maps it.
 *  H3	Positions, lengths and numbers of others are read once, and checked before use: the
 *	receiver reads no byte outside the ring, and the sender writes none. Contents of a frame
 *	may change while it is copied; the kernel checks its own copy.
 *  H4	Nobody waits for another port, but for an interval: a sender drops, a receiver sleeps a
 *	second at most while its kernel uses the port, else four, and a port that joins waits for
 *	the file's lock for two.
 *  H5	After a peer broke the protocol, nothing is read from that use of its port.
 *  H6	A bell has a hint only. A bell that lies costs the owner time: at most one look at the
 *	file in ten milliseconds, and a wake-up that is late by the receiver's sleep (H4).
 *  H7	An entry of the file is a hint only: the memory has the number, and the lock says whether
 *	the port is in use. A port repairs its own entry at its next look (H4).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/virtio_net.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "raw.h"
#include "hub.h"

#define MTU_LEAST 68u

/* Entries of other ports that somebody overwrote are correct again by then. */
#define TRY_NSEC 100000000l
#define TRIES (OB_HUB_SECONDS_UNUSED * 10 + 5)

static void close_descriptors(struct ob_fork_owner *owner)
{
	struct ob_hub *hub = (struct ob_hub *)((char *)owner - offsetof(struct ob_hub, owner));

	ob_fork_owner_drop(&hub->file);
	ob_fork_owner_drop(&hub->entry.memory);
	ob_fork_owner_drop(&hub->entry.bell);
}

static void release(struct ob_hub *hub)
{
	if (hub->file >= 0 && hub->entry.number)
		ob_hub_file_leave(hub);
	ob_hub_peers_notify(hub);
	ob_hub_peers_free(hub);
	close_descriptors(&hub->owner);
	ob_fork_owner_remove(&hub->owner);
	ob_hub_memory_free(hub);
	free(hub);
}

static int set_features(struct ob_net_backend *backend, uint64_t features)
{
	struct ob_hub *hub = (struct ob_hub *)backend;

	(void)features;
	__atomic_store_n(&hub->receiving, true, __ATOMIC_RELEASE);
	ob_hub_ring_bell(hub->bell);
	return 0;
}

static void close_hub(struct ob_net_backend *backend)
{
	struct ob_hub *hub = (struct ob_hub *)backend;

	ob_net_port_stop(hub->device);
	__atomic_store_n(&hub->stopping, true, __ATOMIC_RELEASE);
	ob_hub_ring_bell(hub->bell);
	ob_host_thread_join(hub->host, hub->thread);
	release(hub);
}

/* The child has none of the mappings (hub_memory.c), and has closed the descriptors. */
static void forked(struct ob_net_backend *backend)
{
	struct ob_hub *hub = (struct ob_hub *)backend;

	ob_hub_peers_forked(hub);
	free(hub);
}

static const struct ob_net_backend_operations operations = {
	.transmit = ob_hub_transmit,
	.transmit_end = ob_hub_transmit_end,
	.set_features = set_features,
	.poll = ob_hub_poll,
	.close = close_hub,
	.forked = forked,
};

static struct ob_hub *new_hub(struct ob_host *host, struct ob_net_port *device,
			      const struct ob_net_request *request)
{
	struct ob_hub *hub = calloc(1, sizeof(*hub));

	if (!hub)
		return NULL;
	hub->backend.operations = &operations;
	hub->backend.offloads = OB_HUB_OFFLOADS;
	hub->backend.queues = 1;
	hub->host = host;
	hub->device = device;
	/* Other processes of a new segment start, too: leave them the processors. */
	hub->spin.from = ob_spin_now() + OB_HUB_START_NSEC;
	hub->file = -1;
	hub->opener = request->opener ? *request->opener : -1;
	hub->entry.memory = -1;
	hub->entry.bell = -1;
	ob_fork_owner_add(&hub->owner, close_descriptors);
	return hub;
}

static int check_request(const struct ob_net_request *request, const struct ob_hub_error *error)
{
	if (request->queues > 1)
		return ob_hub_fail(error, -EINVAL, "a hub has one queue, not %u; use queues=1",
				   request->queues);
	if (request->mtu && (request->mtu < MTU_LEAST || request->mtu > OB_HUB_MTU_MOST))
		return ob_hub_fail(error, -EINVAL, "an MTU of %u is not possible; use %u to %u",
				   request->mtu, MTU_LEAST, OB_HUB_MTU_MOST);
	return 0;
}

static int create_memory(struct ob_hub *hub, const struct ob_hub_error *error)
{
	uint64_t number;
	int result;

	if (raw_getrandom(&number, sizeof(number), 0) != sizeof(number))
		return ob_hub_fail(error, -EIO, "the host has no random numbers");
	hub->entry.process = getpid();
	hub->entry.number = number | 1;
	result = ob_hub_memory_create(hub);
	if (result)
		return ob_hub_fail(error, result, "the host refuses shared memory of %lu MB (%s); "
				   "raise the limits of the process", OB_HUB_MEMORY_BYTES >> 20,
				   strerror(-result));
	result = ob_hub_file_publish(hub);
	return result ? ob_hub_fail(error, result, "the host cannot write the file; make room, or "
				    "use another path") : 0;
}

static int open_peers(struct ob_hub *hub, const struct ob_hub_error *error)
{
	struct timespec pause = { .tv_nsec = TRY_NSEC };
	struct ob_hub_entry failed;
	int result = 0;

	for (int i = 0; i < TRIES; i++) {
		result = ob_hub_peers_update(hub, &failed);
		if (!result)
			return 0;
		syscall(SYS_nanosleep, &pause, NULL);
	}
	return ob_hub_fail(error, result, "its process %d cannot be reached (%s); all processes of "
			   "a hub run as one user and see each other in /proc", failed.process,
			   strerror(-result));
}

static int start_thread(struct ob_hub *hub, const struct ob_hub_error *error)
{
	int result = ob_host_thread_create(hub->host, ob_hub_work, hub, "outboard-hub",
					   &hub->thread);

	return result ? ob_hub_fail(error, result, "the host refuses another thread (%s); raise "
				    "the limits of the process", strerror(-result)) : 0;
}

static int join(struct ob_hub *hub, uint32_t mtu, const struct ob_hub_error *error)
{
	int result = ob_hub_file_open(hub, mtu, error);

	if (!result)
		result = create_memory(hub, error);
	if (!result)
		result = open_peers(hub, error);
	/* From the start of the thread on, the list of peers is the thread's. */
	if (!result) {
		ob_hub_peers_notify(hub);
		result = start_thread(hub, error);
	}
	return result;
}

int ob_net_hub_open(struct ob_host *host, struct ob_net_port *port,
		    const struct ob_net_request *request, struct ob_net_backend **backend,
		    char *error, size_t error_size)
{
	struct ob_hub_error line = { request->target, error, error_size };
	struct ob_hub *hub;
	int result = check_request(request, &line);

	if (result)
		return result;
	hub = new_hub(host, port, request);
	if (!hub)
		return ob_hub_fail(&line, -ENOMEM, "out of memory");
	result = join(hub, request->mtu, &line);
	if (result) {
		release(hub);
		return result;
	}
	*backend = &hub->backend;
	return 0;
}
