// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rootless NAT by passt: frames to and from the process. Also the kind "stream": the program has
 * connected the socket with something else that has frames.
 *
 * Both directions are a stream of frames (stream.h).
 *
 *  - The kernel's thread sends with one system call, if the backlog is empty. The rest of a frame
 *    that the socket took in part goes to the backlog, and the sender thread sends it. While the
 *    backlog is not empty, whole frames go there, and those that do not fit are dropped. So only
 *    one thread at a time sends, and the stream never has half a frame.
 *  - The receiver thread reads many frames at once. If the kernel has no room, the thread waits,
 *    the socket fills, and passt slows down its peers.
 *
 * If passt ends, the interface loses its link. What the kernel sends then is dropped.
 *
 * A newer passt has a vhost-user mode (--vhost-user), which needs no copy and no length. The
 * back-end "vhost-user" can use it once there is one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "deliver.h"
#include "internal.h"
#include "pieces.h"
#include "raw.h"
#include "report.h"
#include "ring.h"
#include "stream.h"
#include "user_passt.h"

#define CHUNK_BYTES (512ul << 10)
/* Most bytes that the sender thread hands to the host at a time. */
#define SEND_BYTES (64ul << 10)

struct passt {
	struct ob_net_backend backend;
	struct ob_host *host;
	struct ob_net_port *port;
	struct ob_passt_child child;
	uint64_t receiver, sender;
	struct ob_net_ring backlog;
	uint32_t arrivals;		/* in the backlog; atomic */
	bool ending;			/* atomic */
	bool lost;			/* the connection; atomic */
	/* Of the receiver thread. */
	unsigned char *chunk;
	bool is_silent;			/* passt has closed its standard error */
	/* Of "stream", whose process may be in a sandbox without shutdown() and sendmsg(). */
	int end;			/* an eventfd, readable at the end; -1: none */
	unsigned char *flat;		/* a frame in one piece, behind its length */
};

static bool is_ending(const struct passt *passt)
{
	return __atomic_load_n(&passt->ending, __ATOMIC_ACQUIRE);
}

static bool is_lost(const struct passt *passt)
{
	return __atomic_load_n(&passt->lost, __ATOMIC_ACQUIRE);
}

static void wake_sender(struct passt *passt)
{
	__atomic_add_fetch(&passt->arrivals, 1, __ATOMIC_SEQ_CST);
	ob_host_wake(passt->host, &passt->arrivals, 1);
}

/* ---- from the kernel to passt --------------------------------------------- */

/* Stores the length in front of the frame's bytes. Returns the number of pieces. */
static int prepare(const struct iovec *pieces, int count, uint32_t *length,
		   struct iovec parts[1 + OB_NET_PIECES_MOST])
{
	size_t bytes;

	if (count > OB_NET_PIECES_MOST)
		return -EMSGSIZE;
	count = ob_net_pieces_skip(pieces, count, OB_NET_HEADER_BYTES, parts + 1);
	bytes = ob_net_pieces_length(parts + 1, count);
	if (bytes < OB_NET_ETHERNET_BYTES || bytes > OB_NET_ETHERNET_MOST)
		return -EMSGSIZE;
	*length = htonl((uint32_t)bytes);
	parts[0] = (struct iovec){ length, OB_NET_STREAM_LENGTH_BYTES };
	return count + 1;
}

/* One transmit() at a time uses `flat`. */
static ssize_t send_flat(struct passt *passt, const struct iovec *parts, int count)
{
	size_t length = 0;

	for (int i = 0; i < count; i++) {
		memcpy(passt->flat + length, parts[i].iov_base, parts[i].iov_len);
		length += parts[i].iov_len;
	}
	return raw_send(passt->child.socket, passt->flat, length, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Returns how many bytes the socket took. 0: the socket is full. */
static ssize_t send_now(struct passt *passt, struct iovec *parts, int count)
{
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = (size_t)count };
	ssize_t sent;

	if (passt->flat)
		sent = send_flat(passt, parts, count);
	else
		sent = raw_sendmsg(passt->child.socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent >= 0)
		return sent;
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

static int transmit(struct ob_net_backend *backend, unsigned int queue,
		    const struct iovec *pieces, int count)
{
	struct passt *passt = (struct passt *)backend;
	struct iovec parts[1 + OB_NET_PIECES_MOST];
	uint32_t length;
	ssize_t sent = 0;

	(void)queue;
	if (is_lost(passt))
		return -ENETDOWN;
	count = prepare(pieces, count, &length, parts);
	if (count < 0)
		return count;
	if (ob_net_ring_is_empty(&passt->backlog))
		sent = send_now(passt, parts, count);
	if (sent < 0)
		return (int)sent;
	count = ob_net_pieces_skip(parts, count, (size_t)sent, parts);
	if (!count)
		return 0;
	if (!ob_net_ring_put(&passt->backlog, parts, count))
		return -ENOBUFS;
	wake_sender(passt);
	return 0;
}

/* Sleeps until the socket takes bytes, or has none at its other end, or the interface ends. */
static void wait_for_room(struct passt *passt)
{
	struct pollfd fds[] = {
		{ passt->child.socket, POLLOUT, 0 },
		{ passt->end, POLLIN, 0 },
	};

	raw_poll(fds, 2, -1);
}

/* Sends the oldest bytes. False: there are none. */
static bool send_oldest(struct passt *passt)
{
	const unsigned char *bytes;
	size_t count = ob_net_ring_peek(&passt->backlog, &bytes);
	ssize_t sent;

	if (!count)
		return false;
	if (count > SEND_BYTES)
		count = SEND_BYTES;
	sent = raw_send(passt->child.socket, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent > 0)
		ob_net_ring_take(&passt->backlog, (size_t)sent);
	else if (sent < 0 && errno == EAGAIN)
		wait_for_room(passt);
	else if (sent < 0 && errno != EINTR)
		/* The receiver finds the end of the connection too, and reports it. */
		__atomic_store_n(&passt->lost, true, __ATOMIC_RELEASE);
	return true;
}

static void send_backlog(void *pointer)
{
	struct passt *passt = pointer;

	while (!is_ending(passt) && !is_lost(passt)) {
		uint32_t seen = __atomic_load_n(&passt->arrivals, __ATOMIC_SEQ_CST);

		if (!send_oldest(passt) && !is_ending(passt))
			ob_host_wait(passt->host, &passt->arrivals, seen, OB_FOREVER);
	}
}

/* ---- from passt to the kernel --------------------------------------------- */

/*
 * Delivers all whole frames among the bytes of the chunk, and moves the rest to its beginning.
 * Returns the size of the rest. -EPROTO: a length is wrong. -ESHUTDOWN: the interface is being
 * closed.
 */
static ssize_t deliver_chunk(struct passt *passt, size_t filled)
{
	size_t at = 0;

	while (filled - at >= OB_NET_STREAM_LENGTH_BYTES) {
		uint32_t length;

		memcpy(&length, passt->chunk + at, OB_NET_STREAM_LENGTH_BYTES);
		length = ntohl(length);
		if (length < OB_NET_ETHERNET_BYTES || length > OB_NET_ETHERNET_MOST)
			return -EPROTO;
		if (filled - at - OB_NET_STREAM_LENGTH_BYTES < length)
			break;
		if (!ob_net_deliver(passt->port, passt->backend.mtu,
				    passt->chunk + at + OB_NET_STREAM_LENGTH_BYTES, length))
			return -ESHUTDOWN;
		at += OB_NET_STREAM_LENGTH_BYTES + length;
	}
	ob_net_receive_flush(passt->port, 0);
	memmove(passt->chunk, passt->chunk + at, filled - at);
	return (ssize_t)(filled - at);
}

static void report_messages(struct passt *passt)
{
	char text[400], line[440];

	if (!ob_passt_child_read_messages(&passt->child, text, sizeof(text)))
		return;
	snprintf(line, sizeof(line), "net user: passt: %s", text);
	ob_net_warn(passt->host, line);
}

/* Sleeps until passt has sent frames or written a message, or the interface ends. */
static void wait_for_passt(struct passt *passt)
{
	struct pollfd fds[] = {
		{ passt->child.socket, POLLIN, 0 },
		{ passt->is_silent ? -1 : passt->child.messages, POLLIN, 0 },
		{ passt->end, POLLIN, 0 },
	};

	raw_poll(fds, 3, -1);
	if (fds[1].revents & POLLIN)
		report_messages(passt);
	else if (fds[1].revents)
		passt->is_silent = true;
}

/* Returns the size, 0 at the end of the connection, or -errno. */
static ssize_t read_some(struct passt *passt, size_t filled)
{
	for (;;) {
		ssize_t count = raw_recv(passt->child.socket, passt->chunk + filled,
					 CHUNK_BYTES - filled, MSG_DONTWAIT);
		int error = errno;

		if (count >= 0)
			return count;
		if (is_ending(passt))
			return 0;
		if (error == EAGAIN)
			wait_for_passt(passt);
		else if (error != EINTR)
			return -error;
	}
}

/* Returns when the connection is of no more use. */
static int receive_frames(struct passt *passt)
{
	ssize_t filled = 0, count;

	do {
		count = read_some(passt, (size_t)filled);
		if (count > 0)
			filled = deliver_chunk(passt, (size_t)(filled + count));
	} while (count > 0 && filled >= 0);
	return (int)(filled < 0 ? filled : count);
}

#define NAME "net user: passt "
#define EFFECT "; the interface has no link, add it again to have one"

static void describe_end(int error, int status, char *text, size_t size)
{
	if (error == -EPROTO)
		snprintf(text, size, NAME "has sent a frame of a wrong length" EFFECT);
	else if (status != -1 && WIFSIGNALED(status))
		snprintf(text, size, NAME "was ended by signal %d" EFFECT, WTERMSIG(status));
	else if (status != -1 && WIFEXITED(status))
		snprintf(text, size, NAME "has ended with exit code %d" EFFECT,
			 WEXITSTATUS(status));
	else
		snprintf(text, size, NAME "has ended" EFFECT);
}

static void receive(void *pointer)
{
	struct passt *passt = pointer;
	int error = receive_frames(passt);
	char text[200];
	int status;

	__atomic_store_n(&passt->lost, true, __ATOMIC_RELEASE);
	wake_sender(passt);
	status = ob_passt_child_end(&passt->child);
	if (is_ending(passt))
		return;
	if (passt->flat) {
		snprintf(text, sizeof(text), "net stream: the other side has ended" EFFECT);
	} else {
		report_messages(passt);
		describe_end(error, status, text, sizeof(text));
	}
	ob_net_warn(passt->host, text);
	ob_net_port_link(passt->port, false);
}

/* ---- open and close ------------------------------------------------------- */

static void free_passt(struct passt *passt)
{
	ob_passt_child_close_descriptors(&passt->child);
	if (passt->end >= 0)
		raw_close(passt->end);
	ob_net_ring_free(&passt->backlog);
	free(passt->flat);
	free(passt->chunk);
	free(passt);
}

/* Wakes both threads, which see that the interface ends. */
static void wake_threads(struct passt *passt)
{
	const uint64_t one = 1;

	if (passt->end >= 0)
		raw_write(passt->end, &one, sizeof(one));
	else
		shutdown(passt->child.socket, SHUT_RDWR);
	wake_sender(passt);
}

static void close_passt(struct ob_net_backend *backend)
{
	struct passt *passt = (struct passt *)backend;

	__atomic_store_n(&passt->ending, true, __ATOMIC_RELEASE);
	ob_net_port_stop(passt->port);
	wake_threads(passt);
	ob_host_thread_join(passt->host, passt->sender);
	ob_host_thread_join(passt->host, passt->receiver);
	free_passt(passt);
}

static void forked(struct ob_net_backend *backend)
{
	free_passt((struct passt *)backend);
}

static const struct ob_net_backend_operations operations = {
	.transmit = transmit,
	.close = close_passt,
	.forked = forked,
};

static struct passt *new_passt(struct ob_host *host, struct ob_net_port *port, uint32_t mtu)
{
	struct passt *passt = aligned_alloc(64, sizeof(*passt));

	if (!passt)
		return NULL;
	memset(passt, 0, sizeof(*passt));
	passt->backend = (struct ob_net_backend){ &operations, 0, mtu, 1 };
	passt->host = host;
	passt->port = port;
	passt->end = -1;
	passt->child.host = host;
	passt->child.socket = passt->child.messages = -1;
	passt->chunk = malloc(CHUNK_BYTES);
	if (passt->chunk && !ob_net_ring_init(&passt->backlog, OB_USER_BACKLOG_BYTES))
		return passt;
	free(passt->chunk);
	free(passt);
	return NULL;
}

static int start_threads(struct passt *passt)
{
	int error = ob_host_thread_create(passt->host, receive, passt, "outboard-passt",
					  &passt->receiver);

	if (error)
		return error;
	error = ob_host_thread_create(passt->host, send_backlog, passt, "outboard-passt",
				      &passt->sender);
	if (!error)
		return 0;
	__atomic_store_n(&passt->ending, true, __ATOMIC_RELEASE);
	ob_net_port_stop(passt->port);
	wake_threads(passt);
	ob_host_thread_join(passt->host, passt->receiver);
	return error;
}

/* Takes the descriptors of the child. */
static int start(struct passt *passt, struct ob_net_backend **backend, char *error, size_t size)
{
	int result = start_threads(passt);

	if (result) {
		snprintf(error, size, "net user: the host has no more threads");
		ob_passt_child_end(&passt->child);
		free_passt(passt);
		return result;
	}
	*backend = &passt->backend;
	return 0;
}

int ob_user_passt_open(struct ob_host *host, struct ob_net_port *port,
		       const struct ob_user_options *options, struct ob_net_backend **backend,
		       char *error, size_t error_size)
{
	struct passt *passt = new_passt(host, port, options->mtu);
	int result;

	if (!passt) {
		snprintf(error, error_size, "net user: out of memory");
		return -ENOMEM;
	}
	result = ob_passt_child_start(host, options, &passt->child, error, error_size);
	if (result) {
		/* Its descriptors are closed. */
		passt->child.socket = passt->child.messages = -1;
		free_passt(passt);
		return result;
	}
	return start(passt, backend, error, error_size);
}

static int read_descriptor(const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	return *text && !*end && number >= 0 && number <= INT_MAX ? (int)number : -1;
}

int ob_net_stream_open(struct ob_host *host, struct ob_net_port *port,
		       const struct ob_net_request *request, struct ob_net_backend **backend,
		       char *error, size_t error_size)
{
	uint32_t mtu = request->mtu ? request->mtu : OB_USER_MTU_MOST;
	int given = read_descriptor(request->target);
	struct passt *passt;
	struct stat status;

	if (given < 0 || fstat(given, &status) || !S_ISSOCK(status.st_mode)) {
		snprintf(error, error_size, "net stream: %.32s is no descriptor of a socket; write "
			 "stream:NUMBER", request->target);
		return -EINVAL;
	}
	passt = new_passt(host, port, mtu);
	if (passt) {
		passt->end = raw_eventfd();
		passt->flat = malloc(OB_NET_STREAM_LENGTH_BYTES + OB_NET_ETHERNET_MOST);
		passt->child.socket = raw_dup(given);
		if (passt->end >= 0 && passt->flat && passt->child.socket >= 0)
			return start(passt, backend, error, error_size);
		free_passt(passt);
	}
	snprintf(error, error_size, "net stream: the host has no memory, or no descriptor");
	return -ENOMEM;
}
