// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rootless NAT by libslirp for a kernel in another process, whose interface is of the kind
 * "stream" (stream.h has the form of frames). So a process with a kernel needs no sockets of the
 * host, and this one has nothing but sockets.
 *
 * The other process may be hostile. All lengths are checked. Frames to addresses that mean the host
 * itself (127.0.0.0/8, 0.0.0.0/8, ::/80) are dropped: libslirp would connect to them as to any
 * other address.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <outboard/platform_host.h>

#include "deliver.h"
#include "raw.h"
#include "user_slirp_loop.h"
#include "stream.h"

/* Bytes that are read at once. */
#define CHUNK_BYTES (256ul << 10)

#define TYPE_AT 12u
#define TYPE_IPV4 0x0800u
#define TYPE_IPV6 0x86ddu
#define TO_IPV4_AT (OB_NET_ETHERNET_BYTES + 16u)
#define TO_IPV6_AT (OB_NET_ETHERNET_BYTES + 24u)

struct ob_net_nat {
	struct ob_slirp slirp;
	int socket;
	int gate;			/* of sockets that listened before; -1: none */
	bool is_lost;			/* the other process has gone, or sends nonsense */
	size_t filled;			/* of the chunk */
	unsigned char chunk[CHUNK_BYTES];
};

/* Passes one frame to the kernel. Blocks while the kernel takes none. */
static void send_frame(void *opaque, const void *frame, size_t length)
{
	struct ob_net_nat *nat = opaque;
	uint32_t header = htonl((uint32_t)length);
	struct iovec parts[] = {
		{ &header, sizeof(header) },
		{ (void *)frame, length },
	};
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };

	while (!nat->is_lost && message.msg_iovlen) {
		ssize_t sent = raw_sendmsg(nat->socket, &message, MSG_NOSIGNAL);

		if (sent < 0 && errno != EINTR)
			nat->is_lost = true;
		for (; sent > 0 && message.msg_iovlen; message.msg_iov++, message.msg_iovlen--) {
			struct iovec *first = message.msg_iov;

			if ((size_t)sent < first->iov_len) {
				first->iov_base = (char *)first->iov_base + sent;
				first->iov_len -= (size_t)sent;
				break;
			}
			sent -= (ssize_t)first->iov_len;
		}
	}
}

static bool is_for_host(const unsigned char *frame, size_t length)
{
	static const unsigned char zeros[10];
	unsigned int type = (unsigned int)frame[TYPE_AT] << 8 | frame[TYPE_AT + 1];

	if (type == TYPE_IPV4 && length > TO_IPV4_AT)
		return frame[TO_IPV4_AT] == 127 || !frame[TO_IPV4_AT];
	if (type == TYPE_IPV6 && length >= TO_IPV6_AT + sizeof(zeros))
		return !memcmp(frame + TO_IPV6_AT, zeros, sizeof(zeros));
	return false;
}

/* Passes whole frames of the chunk to libslirp, and moves the rest to its beginning. */
static void take_frames(struct ob_net_nat *nat)
{
	size_t at = 0;

	while (nat->filled - at >= OB_NET_STREAM_LENGTH_BYTES) {
		const unsigned char *frame = nat->chunk + at + OB_NET_STREAM_LENGTH_BYTES;
		uint32_t length;

		memcpy(&length, nat->chunk + at, OB_NET_STREAM_LENGTH_BYTES);
		length = ntohl(length);
		if (length < OB_NET_ETHERNET_BYTES || length > OB_NET_ETHERNET_MOST) {
			nat->is_lost = true;
			return;
		}
		if (nat->filled - at - OB_NET_STREAM_LENGTH_BYTES < length)
			break;
		if (!is_for_host(frame, length))
			ob_slirp_input(&nat->slirp, frame, length);
		at += OB_NET_STREAM_LENGTH_BYTES + length;
	}
	memmove(nat->chunk, nat->chunk + at, nat->filled - at);
	nat->filled -= at;
}

static void receive(struct ob_net_nat *nat)
{
	ssize_t count = raw_recv(nat->socket, nat->chunk + nat->filled,
				 sizeof(nat->chunk) - nat->filled, MSG_DONTWAIT);

	if (count > 0) {
		nat->filled += (size_t)count;
		take_frames(nat);
	} else if (!count || (errno != EAGAIN && errno != EINTR)) {
		nat->is_lost = true;
	}
}

/* Opens the gate for a socket. The other end is of the process with the kernel. */
static void open_gate(struct ob_net_nat *nat)
{
	unsigned char number;
	ssize_t count = raw_recv(nat->gate, &number, sizeof(number), MSG_DONTWAIT);

	if (count == (ssize_t)sizeof(number))
		ob_slirp_take_socket(&nat->slirp, number);
	else if (!count || (errno != EAGAIN && errno != EINTR))
		nat->gate = -1;
}

int ob_platform_net_nat_open(const struct ob_platform_net_nat *from, struct ob_net_nat **made,
			     char *error, size_t size)
{
	struct ob_user_options options = {
		.mtu = OB_USER_MTU_MOST,
		.no_ipv6 = from->no_ipv6,
		.no_host_loopback = from->no_host_loopback,
	};
	struct ob_net_nat *nat;
	int result;

	inet_pton(AF_INET6, OB_USER_ADDRESS6, &options.address6);
	result = ob_user_forwards_parse(from->forwards, &options.forwards, error, size);
	if (!result)
		result = ob_user_forwards_check(&options.forwards, error, size);
	if (result)
		return result;
	nat = calloc(1, sizeof(*nat));
	if (!nat) {
		snprintf(error, size, "net user: the host has no memory");
		return -ENOMEM;
	}
	nat->slirp.send = send_frame;
	nat->slirp.opaque = nat;
	result = ob_slirp_open(&nat->slirp, &options, error, size);
	if (result == -ENOENT)
		snprintf(error, size, "net user: libslirp is not installed; install the package "
			 "libslirp0");
	if (result)
		ob_platform_net_nat_close(nat);
	else
		*made = nat;
	return result;
}

void ob_platform_net_nat_serve(struct ob_net_nat *nat, int socket, int gate)
{
	nat->socket = socket;
	nat->gate = gate;
	while (!nat->is_lost) {
		int timeout, ready, watched = -1;

		if (!ob_slirp_prepare(&nat->slirp, socket, &timeout))
			return;
		if (nat->gate >= 0)
			watched = ob_slirp_watch(&nat->slirp, nat->gate);
		ready = raw_poll(nat->slirp.fds, (nfds_t)nat->slirp.fd_count, timeout);
		/* The socket is the first one. */
		if (ready > 0 && nat->slirp.fds[0].revents)
			receive(nat);
		if (ready > 0 && watched >= 0 && nat->slirp.fds[watched].revents)
			open_gate(nat);
		ob_slirp_work(&nat->slirp, ready < 0);
		ob_slirp_run_timers(&nat->slirp);
	}
}

void ob_platform_net_nat_close(struct ob_net_nat *nat)
{
	ob_slirp_close(&nat->slirp);
	free(nat);
}
