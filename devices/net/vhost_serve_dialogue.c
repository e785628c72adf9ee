// SPDX-License-Identifier: GPL-2.0-only
/*
 * vhost-user: the back-end's side of the dialogue.
 *
 *   state	meaning				leaves by
 *   stopped	this process leaves the		all of features, memory, and both queues' sizes,
 *		front-end's memory alone	rings and `kick` are there, and both are enabled
 *   running	the device serves the queues	any message that changes one of these;
 *						GET_VRING_BASE also takes `kick` away
 *
 * A message that changes something stops the queues first, and starts them again. So nothing
 * changes under a thread of the hub. Queues go on at the used index.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_net.h>
#include <linux/virtio_ring.h>
#include <stdio.h>
#include <string.h>

#include "fork_owner.h"
#include "raw.h"
#include "../shared_fd.h"
#include "bell.h"
#include "clock.h"
#include "vhost_serve.h"

#define BIT(n) (1ull << (n))

#define PROTOCOL BIT(OB_VHOST_PROTOCOL_F_REPLY_ACK)
/* The front-end has these fields of the configuration, and gives them to its guest. */
#define OF_FRONT_END (BIT(VIRTIO_NET_F_MAC) | BIT(VIRTIO_NET_F_STATUS) | BIT(VIRTIO_NET_F_MTU))

#define SIZE_MOST 32768u
/* The rest of a message comes at once. */
#define MESSAGE_NSEC 10000000000ull
#define NSEC_PER_MSEC 1000000ull

/* A message, copied. */
struct message {
	struct ob_vhost_header header;
	union ob_vhost_payload payload;
	int fds[OB_VHOST_REGIONS_MOST];	/* -1: taken */
	uint32_t fd_count;
};

/*
 * The server's thread watches the connection. So that it hears of the end, it does not rely on the
 * front-end to keep the eventfd as it was.
 */
void ob_server_ring(struct ob_net_server *s, unsigned int queue)
{
	ob_shared_set_nonblocking(s->queues[queue].call.fd);
	ob_bell_ring(&s->queues[queue].call);
}

static bool is_stopping(const struct ob_net_server *s)
{
	return __atomic_load_n(&s->stopping, __ATOMIC_SEQ_CST);
}

/* ---- descriptors -------------------------------------------------------- */

static void close_fds(struct message *message)
{
	for (uint32_t i = 0; i < message->fd_count; i++)
		ob_fork_owner_drop(&message->fds[i]);
	message->fd_count = 0;
}

void ob_server_close_descriptors(struct ob_net_server *s)
{
	for (int i = 0; i < OB_SERVER_QUEUES; i++) {
		ob_fork_owner_drop(&s->queues[i].kick);
		ob_fork_owner_drop(&s->queues[i].call.fd);
	}
	ob_fork_owner_drop(&s->socket);
}

/* ../shared_fd.h knows how an eventfd is used, and of nothing else. */
static bool is_eventfd(int fd)
{
	static const char name[] = "anon_inode:[eventfd]";
	char path[40], target[sizeof(name)];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, target, sizeof(target));
	return length == (ssize_t)sizeof(name) - 1 && !memcmp(target, name, sizeof(name) - 1);
}

/* ---- receiving ---------------------------------------------------------- */

/* False: the thread should end the connection. `end` 0: there is no limit. */
static bool wait_for_bytes(struct ob_net_server *s, uint64_t end)
{
	struct pollfd fds[] = {
		{ .fd = s->socket, .events = POLLIN },
		{ .fd = s->event, .events = POLLIN },
	};
	uint64_t now = ob_net_clock(CLOCK_MONOTONIC);

	if (is_stopping(s) || now >= end)
		return false;
	raw_poll(fds, 2, (int)((end - now) / NSEC_PER_MSEC) + 1);
	return true;
}

static void take_fds(struct message *message, struct msghdr *header)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
		size_t bytes = part->cmsg_len - CMSG_LEN(0);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + at, sizeof(fd));
			if (message->fd_count < OB_VHOST_REGIONS_MOST)
				message->fds[message->fd_count++] = fd;
			else
				raw_close(fd);
		}
	}
}

/* Receives exactly so many bytes. NULL, or why not. */
static const char *receive(struct ob_net_server *s, struct message *message, void *bytes,
			   size_t size, uint64_t end)
{
	size_t done = 0;

	while (done < size) {
		union {
			char bytes[CMSG_SPACE(OB_VHOST_REGIONS_MOST * sizeof(int))];
			struct cmsghdr alignment;
		} control;
		struct iovec piece = { (char *)bytes + done, size - done };
		struct msghdr header = {
			.msg_iov = &piece, .msg_iovlen = 1,
			.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes),
		};
		ssize_t got = raw_recvmsg(s->socket, &header, MSG_DONTWAIT);

		if (got > 0) {
			take_fds(message, &header);
			done += (size_t)got;
			if (header.msg_flags & MSG_CTRUNC)
				return "it sent too many descriptors";
		} else if (!got || (errno != EAGAIN && errno != EINTR)) {
			return "";
		} else if (!wait_for_bytes(s, end)) {
			return is_stopping(s) ? "" : "it sent a part of a message";
		}
	}
	return NULL;
}

/* NULL, or why the connection ends: "" if the front-end has closed it. */
static const char *receive_message(struct ob_net_server *s, struct message *message)
{
	uint64_t end = ob_net_clock(CLOCK_MONOTONIC) + MESSAGE_NSEC;
	const char *fault = receive(s, message, &message->header, sizeof(message->header), end);

	if (fault)
		return fault;
	if ((message->header.flags & OB_VHOST_VERSION_MASK) != OB_VHOST_VERSION ||
	    message->header.flags & OB_VHOST_REPLY)
		return "it speaks another version of the protocol";
	if (message->header.size > sizeof(message->payload))
		return "it sent a message that is too long";
	return receive(s, message, &message->payload, message->header.size, end);
}

/* An answer fits into any socket's buffer, unless the front-end does not read. */
static const char *answer(struct ob_net_server *s, const struct message *message,
			  const void *payload, uint32_t size)
{
	struct ob_vhost_header header = {
		message->header.request, OB_VHOST_VERSION | OB_VHOST_REPLY, size
	};
	struct iovec pieces[] = { { &header, sizeof(header) }, { (void *)payload, size } };
	struct msghdr out = { .msg_iov = pieces, .msg_iovlen = 2 };
	ssize_t sent = raw_sendmsg(s->socket, &out, MSG_DONTWAIT | MSG_NOSIGNAL);

	return sent == (ssize_t)(sizeof(header) + size) ? NULL : "it does not read answers";
}

static const char *answer_number(struct ob_net_server *s, const struct message *message,
				 uint64_t number)
{
	return answer(s, message, &number, sizeof(number));
}

/* ---- the queues --------------------------------------------------------- */

/* No thread of the hub uses a queue any more, or its descriptors. False: one still does. */
static bool silence(struct ob_net_server *s)
{
	for (int i = 0; i < OB_SERVER_QUEUES; i++)
		if (!ob_bell_silence(&s->queues[i].call, s->host))
			return false;
	return true;
}

static void stop(struct ob_net_server *s)
{
	if (!s->running)
		return;
	/* A thread of the hub copies a frame. */
	while (s->device->operations->reset(s->device) == -EAGAIN)
		ob_host_thread_yield(s->host);
	s->is_stuck = !silence(s);
	for (int i = 0; i < OB_SERVER_QUEUES; i++) {
		struct ob_server_queue *queue = &s->queues[i];

		queue->base = __atomic_load_n(&queue->used->idx, __ATOMIC_ACQUIRE);
		queue->used = NULL;
	}
	s->running = false;
}

static bool is_complete(const struct ob_net_server *s)
{
	for (int i = 0; i < OB_SERVER_QUEUES; i++) {
		const struct ob_server_queue *queue = &s->queues[i];

		if (!queue->size || !queue->has_rings || queue->kick < 0 ||
		    (s->enables && !queue->enabled))
			return false;
	}
	return s->has_features && s->memory.parts.count;
}

static bool set_queue(struct ob_net_server *s, unsigned int index)
{
	struct ob_server_queue *queue = &s->queues[index];
	struct ob_virtio_queue from = {
		.size = queue->size,
		.interrupt = queue->call.fd >= 0 ? index + 1 : 0,
	};
	struct ob_virtqueue checked;

	if (!ob_server_memory_find(&s->memory, queue->rings.descriptors, &from.descriptors) ||
	    !ob_server_memory_find(&s->memory, queue->rings.available, &from.available) ||
	    !ob_server_memory_find(&s->memory, queue->rings.used, &from.used) ||
	    ob_virtqueue_set(&checked, &s->memory.parts, &from) ||
	    s->device->operations->queue(s->device, index, &from))
		return false;
	ob_net_port_set_base(s->port, index, queue->base);
	queue->used = checked.used;
	return true;
}

/*
 * Both sides look at each queue once: there may be buffers already, and a thread of the hub may
 * have come with an interrupt while the queues were stopped.
 */
static const char *start_if_complete(struct ob_net_server *s)
{
	if (s->running || s->is_stuck || !is_complete(s))
		return NULL;
	for (unsigned int i = 0; i < OB_SERVER_QUEUES; i++)
		if (!set_queue(s, i))
			return "a queue is outside of its memory, or has a wrong size";
	s->device->operations->start(s->device, 0);
	s->running = true;
	for (unsigned int i = 0; i < OB_SERVER_QUEUES; i++) {
		ob_bell_open(&s->queues[i].call);
		ob_server_ring(s, i);
		s->device->operations->notify(s->device, i);
	}
	return NULL;
}

/* ---- messages ----------------------------------------------------------- */

/* The effect of a message, besides an answer of its own. */
enum result { DONE, ANSWERED, REFUSED };

static uint64_t offered(const struct ob_net_server *s)
{
	return (s->device->info.features & ~OF_FRONT_END) | BIT(OB_VHOST_F_PROTOCOL_FEATURES);
}

static enum result set_features(struct ob_net_server *s, uint64_t features)
{
	if (features & ~offered(s))
		return REFUSED;
	stop(s);
	s->enables = features & BIT(OB_VHOST_F_PROTOCOL_FEATURES);
	features &= ~BIT(OB_VHOST_F_PROTOCOL_FEATURES);
	s->has_features = !s->device->operations->features(s->device, features);
	return s->has_features ? DONE : REFUSED;
}

static enum result set_memory(struct ob_net_server *s, const struct message *message)
{
	const struct ob_vhost_memory *table = &message->payload.memory;
	const char *fault;

	if (message->header.size < offsetof(struct ob_vhost_memory, regions) ||
	    table->count > OB_VHOST_REGIONS_MOST || table->count != message->fd_count ||
	    message->header.size != offsetof(struct ob_vhost_memory, regions[table->count]))
		return REFUSED;
	stop(s);
	if (s->is_stuck)
		return DONE;
	fault = ob_server_memory_map(&s->memory, table, message->fds);
	if (fault)
		ob_server_say(s, "%s", fault);
	return fault ? REFUSED : DONE;
}

/* Takes the descriptor of a message to *fd. */
static enum result set_descriptor(struct ob_net_server *s, struct message *message, int *fd)
{
	bool has_none = message->payload.number & OB_VHOST_NO_DESCRIPTOR;

	if (message->fd_count != !has_none ||
	    (!has_none && !is_eventfd(message->fds[0])))
		return REFUSED;
	stop(s);
	if (s->is_stuck)
		return DONE;
	ob_fork_owner_drop(fd);
	if (!has_none) {
		*fd = message->fds[0];
		message->fds[0] = -1;
	}
	return DONE;
}

static enum result get_base(struct ob_net_server *s, const struct message *message,
			    struct ob_server_queue *queue, const char **fault)
{
	struct ob_vhost_state state = message->payload.state;

	stop(s);
	ob_fork_owner_drop(&queue->kick);
	state.number = queue->base;
	*fault = answer(s, message, &state, sizeof(state));
	return ANSWERED;
}

static enum result set_state(struct ob_net_server *s, const struct message *message,
			     struct ob_server_queue *queue)
{
	uint32_t number = message->payload.state.number;

	stop(s);
	switch (message->header.request) {
	case OB_VHOST_SET_VRING_NUM:
		if (number > SIZE_MOST || !number || number & (number - 1))
			return REFUSED;
		queue->size = number;
		return DONE;
	case OB_VHOST_SET_VRING_BASE:
		if (number > UINT16_MAX)
			return REFUSED;
		queue->base = (uint16_t)number;
		return DONE;
	default:
		queue->enabled = number;
		return DONE;
	}
}

/* The size of the payload. -1: the request is unknown. -2: any size. */
static int payload_size(uint32_t request)
{
	switch (request) {
	case OB_VHOST_GET_FEATURES:
	case OB_VHOST_SET_OWNER:
	case OB_VHOST_RESET_OWNER:
	case OB_VHOST_GET_PROTOCOL_FEATURES:
	case OB_VHOST_GET_QUEUE_NUM:
		return 0;
	case OB_VHOST_SET_FEATURES:
	case OB_VHOST_SET_PROTOCOL_FEATURES:
	case OB_VHOST_SET_VRING_KICK:
	case OB_VHOST_SET_VRING_CALL:
	case OB_VHOST_SET_VRING_ERR:
		return sizeof(uint64_t);
	case OB_VHOST_SET_VRING_NUM:
	case OB_VHOST_SET_VRING_BASE:
	case OB_VHOST_GET_VRING_BASE:
	case OB_VHOST_SET_VRING_ENABLE:
		return sizeof(struct ob_vhost_state);
	case OB_VHOST_SET_VRING_ADDR:
		return sizeof(struct ob_vhost_rings);
	case OB_VHOST_SET_MEM_TABLE:
		return -2;
	default:
		return -1;
	}
}

/* The queue that a message is about. NULL: there is none of that number. */
static struct ob_server_queue *queue_of(struct ob_net_server *s, const struct message *message)
{
	uint64_t index = message->payload.state.index;

	switch (message->header.request) {
	case OB_VHOST_SET_VRING_KICK:
	case OB_VHOST_SET_VRING_CALL:
	case OB_VHOST_SET_VRING_ERR:
		index = message->payload.number & OB_VHOST_INDEX_MASK;
	}
	return index < OB_SERVER_QUEUES ? &s->queues[index] : NULL;
}

static enum result carry_out_on_queue(struct ob_net_server *s, struct message *message,
				      const char **fault)
{
	struct ob_server_queue *queue = queue_of(s, message);

	if (!queue)
		return REFUSED;
	switch (message->header.request) {
	case OB_VHOST_GET_VRING_BASE:
		return get_base(s, message, queue, fault);
	case OB_VHOST_SET_VRING_ADDR:
		stop(s);
		queue->rings = message->payload.rings;
		queue->has_rings = true;
		return DONE;
	case OB_VHOST_SET_VRING_KICK:
		return set_descriptor(s, message, &queue->kick);
	case OB_VHOST_SET_VRING_CALL:
		return set_descriptor(s, message, &queue->call.fd);
	case OB_VHOST_SET_VRING_ERR:
		return DONE;
	default:
		return set_state(s, message, queue);
	}
}

static enum result carry_out(struct ob_net_server *s, struct message *message, const char **fault)
{
	int size = payload_size(message->header.request);

	if (size == -1 || (size >= 0 && message->header.size != (uint32_t)size))
		return REFUSED;
	switch (message->header.request) {
	case OB_VHOST_GET_FEATURES:
		*fault = answer_number(s, message, offered(s));
		return ANSWERED;
	case OB_VHOST_GET_PROTOCOL_FEATURES:
		*fault = answer_number(s, message, PROTOCOL);
		return ANSWERED;
	case OB_VHOST_GET_QUEUE_NUM:
		*fault = answer_number(s, message, 1);
		return ANSWERED;
	case OB_VHOST_SET_FEATURES:
		return set_features(s, message->payload.number);
	case OB_VHOST_SET_PROTOCOL_FEATURES:
		s->protocol = message->payload.number & PROTOCOL;
		return message->payload.number & ~PROTOCOL ? REFUSED : DONE;
	case OB_VHOST_SET_OWNER:
		return DONE;
	case OB_VHOST_RESET_OWNER:
		stop(s);
		return DONE;
	case OB_VHOST_SET_MEM_TABLE:
		return set_memory(s, message);
	default:
		return carry_out_on_queue(s, message, fault);
	}
}

/* A front-end that hears of a refusal may go on. */
static const char *finish(struct ob_net_server *s, const struct message *message,
			  enum result result)
{
	bool is_answered = s->protocol & BIT(OB_VHOST_PROTOCOL_F_REPLY_ACK) &&
			   message->header.flags & OB_VHOST_NEED_REPLY;

	if (result == REFUSED)
		ob_server_say(s, "%s (%u) of the front-end is refused",
			      ob_vhost_name((enum ob_vhost_request)message->header.request),
			      message->header.request);
	if (is_answered && result != ANSWERED)
		return answer_number(s, message, result == REFUSED);
	return result == REFUSED ? "it sent a message that is wrong" : NULL;
}

static const char *take_message(struct ob_net_server *s)
{
	struct message message = { .fd_count = 0 };
	const char *fault = receive_message(s, &message);

	if (!fault) {
		enum result result = carry_out(s, &message, &fault);

		if (!fault)
			fault = start_if_complete(s);
		if (!fault)
			fault = finish(s, &message, result);
	}
	close_fds(&message);
	return fault;
}

/* ---- the connection ----------------------------------------------------- */

static void take_kick(struct ob_net_server *s, unsigned int index)
{
	ob_shared_event_clear(s->queues[index].kick);
	if (s->running)
		s->device->operations->notify(s->device, index);
}

/* The first time at once, and the number at the end. */
static void report_dropped(struct ob_net_server *s, bool is_end)
{
	unsigned long long dropped = ob_net_port_dropped(s->port);

	if (dropped && (is_end || !s->has_dropped))
		ob_server_say(s, "%llu frames to the front-end are dropped: they are larger than "
			      "its buffers, or not what their headers say", dropped);
	s->has_dropped = dropped;
}

static void take_events(struct ob_net_server *s, const struct pollfd kicks[OB_SERVER_QUEUES])
{
	for (unsigned int i = 0; i < OB_SERVER_QUEUES; i++)
		if (kicks[i].revents)
			take_kick(s, i);
	report_dropped(s, false);
}

void ob_server_front_end(struct ob_net_server *s)
{
	const char *fault = NULL;

	while (!fault && !is_stopping(s) && !s->is_stuck) {
		struct pollfd fds[2 + OB_SERVER_QUEUES] = {
			{ .fd = s->socket, .events = POLLIN },
			{ .fd = s->event, .events = POLLIN },
		};

		for (int i = 0; i < OB_SERVER_QUEUES; i++)
			fds[2 + i] = (struct pollfd){ .fd = s->queues[i].kick, .events = POLLIN };
		if (raw_ppoll(fds, 2 + OB_SERVER_QUEUES, NULL) < 0)
			continue;
		take_events(s, fds + 2);
		if (fds[0].revents)
			fault = take_message(s);
	}
	if (fault && *fault)
		ob_server_say(s, "the front-end is disconnected: %s", fault);
	stop(s);
	report_dropped(s, true);
	if (s->is_stuck)
		ob_server_say(s, "the front-end keeps its eventfd full: nobody is served here "
			      "until the program ends");
}
