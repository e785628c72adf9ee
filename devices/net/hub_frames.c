// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hub: puts frames into rings, and takes them out.
 *
 * A record is a length of four bytes, four unused bytes, and the frame. It begins at a multiple of
 * 64 bytes, and never wraps: SKIP in place of a length means that the ring continues at its start.
 * The sender skips also if the receiver has read everything, so that a link with little traffic
 * uses the same few pages again: they stay in the cache.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hub.h"
#include "pieces.h"

#define ALIGNMENT 64ul
#define RECORD_HEADER 8ul
#define SKIP UINT32_MAX

#define ETHERNET_BYTES 14u
#define FRAME_LEAST (OB_NET_HEADER_BYTES + ETHERNET_BYTES)

/* Where the sender looks whether it may go back to the start. */
#define WINDOW_BYTES (128ul << 10)

/* A receiver is woken after so many bytes, and copies them while the sender goes on. */
#define ANNOUNCED_BYTES (32u << 10)

static uint64_t record_size(size_t length)
{
	return (RECORD_HEADER + length + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

/* ---- bells ------------------------------------------------------------------- */

void ob_hub_ring_bell(struct ob_hub_bell *bell)
{
	__atomic_add_fetch(&bell->rings, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &bell->rings, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void ob_hub_use(struct ob_hub *hub)
{
	if (!__atomic_load_n(&hub->used, __ATOMIC_RELAXED) &&
	    !__atomic_exchange_n(&hub->used, true, __ATOMIC_SEQ_CST))
		ob_hub_ring_bell(hub->bell);
}

/* Wakes the peer once each time it sleeps. */
static void announce(struct ob_hub_peer *peer)
{
	uint64_t sleep;

	peer->unannounced = 0;
	/* Either this thread sees the peer asleep, or the peer sees the frames. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	sleep = __atomic_load_n(&peer->control->sleep, __ATOMIC_RELAXED);
	if (!(sleep & 1) || sleep == peer->woken)
		return;
	peer->woken = sleep;
	ob_hub_ring_bell(peer->bell);
}

/* ---- transmit ---------------------------------------------------------------- */

/* The peer's position counts once the peer has opened this port, and if it is possible. */
static void see_taken(const struct ob_hub *hub, struct ob_hub_peer *peer)
{
	const struct ob_hub_link *link = &peer->control->links[hub->port];
	uint64_t taken;

	if (__atomic_load_n(&link->number, __ATOMIC_ACQUIRE) != hub->entry.number)
		return;
	taken = __atomic_load_n(&link->taken, __ATOMIC_ACQUIRE);
	if (taken - peer->taken_seen <= peer->sent - peer->taken_seen)
		peer->taken_seen = taken;
}

/* How much of the ring the next record skips. */
static uint64_t bytes_to_skip(const struct ob_hub *hub, struct ob_hub_peer *peer, uint64_t size)
{
	uint64_t offset = peer->sent % OB_HUB_RING_BYTES, rest = OB_HUB_RING_BYTES - offset;

	if (size > rest)
		return rest;
	if (offset < WINDOW_BYTES || offset / WINDOW_BYTES == (offset + size) / WINDOW_BYTES)
		return 0;
	see_taken(hub, peer);
	return peer->taken_seen == peer->sent ? rest : 0;
}

static bool has_room(const struct ob_hub *hub, struct ob_hub_peer *peer, uint64_t size)
{
	if (peer->sent + size - peer->taken_seen > OB_HUB_RING_BYTES)
		see_taken(hub, peer);
	return peer->sent + size - peer->taken_seen <= OB_HUB_RING_BYTES;
}

static void write_record(char *at, uint32_t length, const struct iovec *pieces, int count)
{
	memcpy(at, &length, sizeof(length));
	at += RECORD_HEADER;
	for (int i = 0; i < count; i++) {
		memcpy(at, pieces[i].iov_base, pieces[i].iov_len);
		at += pieces[i].iov_len;
	}
}

static int put(struct ob_hub *hub, unsigned int port, size_t length, const struct iovec *pieces,
	       int count)
{
	struct ob_hub_peer *peer = __atomic_load_n(&hub->peers[port], __ATOMIC_SEQ_CST);
	char *ring = ob_hub_ring(hub, port);
	uint64_t size = record_size(length), skip;

	if (!peer)
		return -ENOTCONN;
	skip = bytes_to_skip(hub, peer, size);
	if (!has_room(hub, peer, skip + size))
		return -ENOBUFS;
	if (skip)
		memcpy(ring + peer->sent % OB_HUB_RING_BYTES, &(uint32_t){ SKIP }, 4);
	peer->sent += skip;
	write_record(ring + peer->sent % OB_HUB_RING_BYTES, (uint32_t)length, pieces, count);
	peer->sent += size;
	__atomic_store_n(&hub->control->links[port].sent, peer->sent, __ATOMIC_RELEASE);
	hub->touched |= 1ull << port;
	peer->unannounced += (uint32_t)size;
	if (peer->unannounced >= ANNOUNCED_BYTES)
		announce(peer);
	return 0;
}

/* Copies the first bytes. False: there are fewer. */
static bool peek(const struct iovec *pieces, int count, void *bytes, size_t size)
{
	char *to = bytes;

	for (int i = 0; i < count && size; i++) {
		size_t part = pieces[i].iov_len < size ? pieces[i].iov_len : size;

		memcpy(to, pieces[i].iov_base, part);
		to += part;
		size -= part;
	}
	return !size;
}

/* Receivers with a full ring get no frame: that is how a network drops frames. */
static void flood(struct ob_hub *hub, size_t length, const struct iovec *pieces, int count)
{
	for (unsigned int port = 0; port < OB_HUB_PORTS; port++)
		put(hub, port, length, pieces, count);
}

static int send_frame(struct ob_hub *hub, const struct iovec *pieces, int count)
{
	unsigned char start[OB_NET_HEADER_BYTES + 6];
	const unsigned char *destination = start + OB_NET_HEADER_BYTES;
	size_t length = ob_net_pieces_length(pieces, count);
	int port, error = -ENOTCONN;

	if (length < FRAME_LEAST || length > OB_NET_FRAME_MOST ||
	    !peek(pieces, count, start, sizeof(start)))
		return -EMSGSIZE;
	port = destination[0] & 1 ? -1 : ob_hub_learn_find(hub, destination);
	if (port >= 0)
		error = put(hub, (unsigned int)port, length, pieces, count);
	if (error != -ENOTCONN)
		return error;
	flood(hub, length, pieces, count);
	return 0;
}

int ob_hub_transmit(struct ob_net_backend *backend, unsigned int queue,
		    const struct iovec *pieces, int count)
{
	struct ob_hub *hub = (struct ob_hub *)backend;
	int error;

	(void)queue;
	__atomic_store_n(&hub->transmitting, 1, __ATOMIC_SEQ_CST);
	error = send_frame(hub, pieces, count);
	__atomic_store_n(&hub->transmitting, 0, __ATOMIC_RELEASE);
	return error;
}

void ob_hub_transmit_end(struct ob_net_backend *backend, unsigned int queue)
{
	struct ob_hub *hub = (struct ob_hub *)backend;

	(void)queue;
	ob_hub_use(hub);
	__atomic_store_n(&hub->transmitting, 1, __ATOMIC_SEQ_CST);
	for (; hub->touched; hub->touched &= hub->touched - 1) {
		unsigned int port = (unsigned int)__builtin_ctzll(hub->touched);
		struct ob_hub_peer *peer = __atomic_load_n(&hub->peers[port], __ATOMIC_SEQ_CST);

		if (peer && peer->unannounced)
			announce(peer);
	}
	__atomic_store_n(&hub->transmitting, 0, __ATOMIC_RELEASE);
}

/* ---- receive ----------------------------------------------------------------- */

static uint64_t sent_by(const struct ob_hub *hub, const struct ob_hub_peer *peer)
{
	const struct ob_hub_link *link = &peer->control->links[hub->port];

	if (__atomic_load_n(&link->number, __ATOMIC_ACQUIRE) != hub->entry.number)
		return peer->taken;	/* the peer has not opened this port yet */
	return __atomic_load_n(&link->sent, __ATOMIC_ACQUIRE);
}

bool ob_hub_has_frame(struct ob_hub *hub, unsigned int port)
{
	const struct ob_hub_peer *peer = hub->peers[port];

	return !peer->broken && sent_by(hub, peer) != peer->taken;
}

static void set_taken(struct ob_hub *hub, unsigned int port, uint64_t taken)
{
	hub->peers[port]->taken = taken;
	__atomic_store_n(&hub->control->links[port].taken, taken, __ATOMIC_RELEASE);
}

/*
 * The peer's next record: where it is, and its length. The length is read once. 0: there is none,
 * or the record is not possible, and the peer is broken.
 */
static uint32_t next_record(struct ob_hub *hub, unsigned int port, const char **at)
{
	struct ob_hub_peer *peer = hub->peers[port];
	uint64_t offset, rest, there;
	uint32_t length;

	for (;;) {
		if (peer->sent_seen == peer->taken)
			peer->sent_seen = sent_by(hub, peer);
		there = peer->sent_seen - peer->taken;
		if (!there)
			return 0;
		offset = peer->taken % OB_HUB_RING_BYTES;
		rest = OB_HUB_RING_BYTES - offset;
		if (there > OB_HUB_RING_BYTES || there % ALIGNMENT)
			break;
		*at = peer->ring + offset + RECORD_HEADER;
		length = __atomic_load_n((const uint32_t *)(peer->ring + offset), __ATOMIC_RELAXED);
		if (length != SKIP) {
			if (length < FRAME_LEAST || length > OB_NET_FRAME_MOST ||
			    record_size(length) > rest || record_size(length) > there)
				break;
			return length;
		}
		if (rest > there)
			break;
		set_taken(hub, port, peer->taken + rest);
	}
	peer->broken = true;
	return 0;
}

int ob_hub_take(struct ob_hub *hub, unsigned int port, size_t *length)
{
	unsigned char source[6];
	struct iovec piece;
	const char *frame;
	int result;

	*length = next_record(hub, port, &frame);
	if (!*length)
		return 0;
	/* Before the kernel answers. */
	memcpy(source, frame + OB_NET_HEADER_BYTES + 6, sizeof(source));
	ob_hub_learn(hub, source, port);
	piece = (struct iovec){ (void *)frame, *length };
	result = ob_net_receive(hub->device, 0, &piece, 1);
	if (result) {
		*length = ob_net_receive_lacks(hub->device, 0);
		return result;
	}
	set_taken(hub, port, hub->peers[port]->taken + record_size(*length));
	return 1;
}
