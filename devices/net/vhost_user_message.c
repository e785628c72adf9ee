// SPDX-License-Identifier: GPL-2.0-only
/*
 * vhost-user: one request of the front-end, and its answer.
 *
 * The back-end is not trusted: an answer has the request's number, the right version and the exact
 * size, or it is an error. Descriptors that come with an answer are dropped by the host, because
 * nothing here makes room for them. Each request ends in 10 seconds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "raw.h"
#include "clock.h"
#include "pass_descriptor.h"
#include "vhost_user.h"

#define TIMEOUT_SECONDS 10
#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull

int ob_vhost_fail(struct ob_vhost_session *session, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(session->reason, sizeof(session->reason), format, arguments);
	va_end(arguments);
	return error;
}

const char *ob_vhost_name(enum ob_vhost_request request)
{
	switch (request) {
	case OB_VHOST_GET_FEATURES:
		return "GET_FEATURES";
	case OB_VHOST_SET_FEATURES:
		return "SET_FEATURES";
	case OB_VHOST_SET_OWNER:
		return "SET_OWNER";
	case OB_VHOST_RESET_OWNER:
		return "RESET_OWNER";
	case OB_VHOST_SET_MEM_TABLE:
		return "SET_MEM_TABLE";
	case OB_VHOST_SET_VRING_NUM:
		return "SET_VRING_NUM";
	case OB_VHOST_SET_VRING_ADDR:
		return "SET_VRING_ADDR";
	case OB_VHOST_SET_VRING_BASE:
		return "SET_VRING_BASE";
	case OB_VHOST_GET_VRING_BASE:
		return "GET_VRING_BASE";
	case OB_VHOST_SET_VRING_KICK:
		return "SET_VRING_KICK";
	case OB_VHOST_SET_VRING_CALL:
		return "SET_VRING_CALL";
	case OB_VHOST_SET_VRING_ERR:
		return "SET_VRING_ERR";
	case OB_VHOST_GET_PROTOCOL_FEATURES:
		return "GET_PROTOCOL_FEATURES";
	case OB_VHOST_SET_PROTOCOL_FEATURES:
		return "SET_PROTOCOL_FEATURES";
	case OB_VHOST_GET_QUEUE_NUM:
		return "GET_QUEUE_NUM";
	case OB_VHOST_SET_VRING_ENABLE:
		return "SET_VRING_ENABLE";
	case OB_VHOST_NET_SET_MTU:
		return "NET_SET_MTU";
	}
	return "a request";
}

static uint64_t now(void)
{
	return ob_net_clock(CLOCK_MONOTONIC);
}

static bool is_aborted(const struct ob_vhost_session *session)
{
	return session->aborting && __atomic_load_n(session->aborting, __ATOMIC_SEQ_CST);
}

static int closed(struct ob_vhost_session *session, enum ob_vhost_request request)
{
	return ob_vhost_fail(session, -EPIPE, "the back-end closed the connection at %s",
			     ob_vhost_name(request));
}

/* Waits until the socket is ready, or the time is over. */
static int wait_until(struct ob_vhost_session *session, enum ob_vhost_request request,
		      short events, uint64_t end)
{
	struct pollfd fds[] = {
		{ .fd = session->socket, .events = events },
		{ .fd = session->abort, .events = POLLIN },
	};

	for (;;) {
		uint64_t time = now();

		if (is_aborted(session))
			return ob_vhost_fail(session, -ECANCELED, "the interface is being closed");
		if (time >= end)
			return ob_vhost_fail(session, -ETIMEDOUT,
					     "the back-end did not answer %s in %d seconds",
					     ob_vhost_name(request), TIMEOUT_SECONDS);
		raw_poll(fds, 2, (int)((end - time) / NSEC_PER_MSEC) + 1);
		if (fds[0].revents)
			return 0;
		/* The event was another one: it stays readable, and would not let this wait. */
		if (fds[1].revents && !is_aborted(session))
			fds[1].fd = -1;
	}
}

/* A message is shorter than any socket's buffer: it is sent as a whole. */
static int send_message(struct ob_vhost_session *session, const struct ob_vhost_header *header,
			const void *payload, const int *fds, uint32_t fd_count, uint64_t end)
{
	enum ob_vhost_request request = (enum ob_vhost_request)header->request;
	union ob_descriptor_control control = { .bytes = "" };
	struct iovec pieces[] = {
		{ (void *)header, sizeof(*header) },
		{ (void *)payload, header->size },
	};
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = header->size ? 2 : 1 };
	ssize_t sent;

	if (fd_count)
		ob_pass_descriptor(&message, &control, fds[0]);
	for (;;) {
		int error;

		sent = raw_sendmsg(session->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (sent >= 0)
			break;
		if (errno == EPIPE || errno == ECONNRESET)
			return closed(session, request);
		if (errno != EAGAIN && errno != EINTR)
			return ob_vhost_fail(session, -errno, "cannot send %s: %s",
					     ob_vhost_name(request), strerror(errno));
		error = wait_until(session, request, POLLOUT, end);
		if (error)
			return error;
	}
	if ((size_t)sent == sizeof(*header) + header->size)
		return 0;
	return ob_vhost_fail(session, -EPROTO, "the back-end does not read %s",
			     ob_vhost_name(request));
}

static int receive_bytes(struct ob_vhost_session *session, enum ob_vhost_request request,
			 void *bytes, size_t size, uint64_t end)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = raw_recv(session->socket, (char *)bytes + done, size - done,
				       MSG_DONTWAIT);
		int error;

		if (got > 0) {
			done += (size_t)got;
			continue;
		}
		if (!got || errno == ECONNRESET)
			return closed(session, request);
		if (errno != EAGAIN && errno != EINTR)
			return ob_vhost_fail(session, -errno, "cannot receive the answer to %s: %s",
					     ob_vhost_name(request), strerror(errno));
		error = wait_until(session, request, POLLIN, end);
		if (error)
			return error;
	}
	return 0;
}

static int receive_answer(struct ob_vhost_session *session, enum ob_vhost_request request,
			  void *answer, uint32_t size, uint64_t end)
{
	struct ob_vhost_header header;
	int error = receive_bytes(session, request, &header, sizeof(header), end);

	if (error)
		return error;
	if (header.request != request)
		return ob_vhost_fail(session, -EPROTO,
				     "the back-end answered %s with message %u",
				     ob_vhost_name(request), header.request);
	if ((header.flags & OB_VHOST_VERSION_MASK) != OB_VHOST_VERSION ||
	    !(header.flags & OB_VHOST_REPLY))
		return ob_vhost_fail(session, -EPROTO, "the back-end answered %s with flags %#x",
				     ob_vhost_name(request), header.flags);
	if (header.size != size)
		return ob_vhost_fail(session, -EPROTO,
				     "the back-end answered %s with %u bytes, not %u",
				     ob_vhost_name(request), header.size, size);
	return receive_bytes(session, request, answer, size, end);
}

int ob_vhost_ask(struct ob_vhost_session *session, enum ob_vhost_request request,
		 const void *payload, uint32_t size, void *answer, uint32_t answer_size)
{
	struct ob_vhost_header header = { request, OB_VHOST_VERSION, size };
	uint64_t end = now() + TIMEOUT_SECONDS * NSEC_PER_SEC;
	int error = send_message(session, &header, payload, NULL, 0, end);

	return error ? error : receive_answer(session, request, answer, answer_size, end);
}

int ob_vhost_send(struct ob_vhost_session *session, enum ob_vhost_request request,
		  const void *payload, uint32_t size, const int *fds, uint32_t fd_count)
{
	bool is_answered = session->protocol >> OB_VHOST_PROTOCOL_F_REPLY_ACK & 1;
	struct ob_vhost_header header = {
		request, OB_VHOST_VERSION | (is_answered ? OB_VHOST_NEED_REPLY : 0), size
	};
	uint64_t end = now() + TIMEOUT_SECONDS * NSEC_PER_SEC, result = 0;
	int error = send_message(session, &header, payload, fds, fd_count, end);

	if (!error && is_answered)
		error = receive_answer(session, request, &result, sizeof(result), end);
	if (error || !result)
		return error;
	return ob_vhost_fail(session, -EREMOTEIO, "the back-end refuses %s (%llu)",
			     ob_vhost_name(request), (unsigned long long)result);
}
