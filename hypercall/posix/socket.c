// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's sockets for the kernel: one system call of the host for each hypercall.
 *
 * The number of a socket is its descriptor. A bit for each descriptor says which ones are sockets
 * of the kernel: no call reaches a file of the program, whatever number the kernel passes. All
 * sockets are non-blocking, so no call waits. socket_events.c watches them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <linux/sockios.h>

#include "internal.h"
#include "raw.h"

_Static_assert(sizeof(struct ob_socket_part) == sizeof(struct iovec) &&
	       offsetof(struct ob_socket_part, address) == offsetof(struct iovec, iov_base) &&
	       offsetof(struct ob_socket_part, length) == offsetof(struct iovec, iov_len),
	       "a part is passed to the host as it is");

static bool is_open(struct ob_host *host, uint32_t socket)
{
	return socket < OB_SOCKETS_MOST &&
	       __atomic_load_n(&host->sockets.open[socket / 64], __ATOMIC_ACQUIRE) &
		       1ull << socket % 64;
}

static int result_of(int result)
{
	return result < 0 ? -errno : result;
}

/*
 * Moves a new descriptor out of the way of the program, which may count on the lowest free number,
 * or use dup2() to a low one. Where the host has no high one, it stays.
 */
static int move_up(struct ob_host *host, int fd)
{
	int moved = raw_dup_above(fd, host->sockets.first);

	if (moved < 0)
		return fd;
	raw_close(fd);
	return moved;
}

/* Takes a new descriptor into the kernel's. Returns the socket's number. */
static int keep(struct ob_host *host, int fd)
{
	int moved;

	if (fd < 0)
		return -errno;
	moved = move_up(host, fd);
	if (moved >= (int)OB_SOCKETS_MOST) {
		raw_close(moved);
		return -EMFILE;
	}
	__atomic_or_fetch(&host->sockets.open[moved / 64], 1ull << moved % 64, __ATOMIC_RELEASE);
	return moved;
}

int ob_host_socket_open(struct ob_host *host, uint32_t family, uint32_t type, uint32_t protocol)
{
	return keep(host, raw_socket((int)family, (int)type | SOCK_NONBLOCK | SOCK_CLOEXEC,
				     (int)protocol));
}

int ob_host_socket_accept(struct ob_host *host, uint32_t socket)
{
	if (!is_open(host, socket))
		return -EBADF;
	return keep(host, raw_accept((int)socket, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void ob_host_socket_close(struct ob_host *host, uint32_t socket)
{
	uint64_t bit = 1ull << socket % 64;

	if (is_open(host, socket) &&
	    __atomic_fetch_and(&host->sockets.open[socket / 64], ~bit, __ATOMIC_ACQ_REL) & bit)
		raw_close((int)socket);
}

void ob_posix_sockets_close(struct ob_host *host)
{
	for (uint32_t word = 0; word < OB_SOCKETS_MOST / 64; word++)
		for (uint64_t rest = host->sockets.open[word]; rest; rest &= rest - 1)
			ob_host_socket_close(host, word * 64 + (uint32_t)__builtin_ctzll(rest));
}

int ob_host_socket_bind(struct ob_host *host, uint32_t socket, const void *address, uint32_t size)
{
	return is_open(host, socket) ? result_of(bind((int)socket, address, size)) : -EBADF;
}

int ob_host_socket_connect(struct ob_host *host, uint32_t socket, const void *address,
			   uint32_t size)
{
	return is_open(host, socket) ? result_of(raw_connect((int)socket, address, size)) : -EBADF;
}

int ob_host_socket_listen(struct ob_host *host, uint32_t socket, uint32_t backlog)
{
	return is_open(host, socket) ? result_of(listen((int)socket, (int)backlog)) : -EBADF;
}

int ob_host_socket_shutdown(struct ob_host *host, uint32_t socket, uint32_t how)
{
	return is_open(host, socket) ? result_of(shutdown((int)socket, (int)how)) : -EBADF;
}

int ob_host_socket_name(struct ob_host *host, uint32_t socket, uint32_t peer, void *address,
			uint32_t *size)
{
	if (!is_open(host, socket))
		return -EBADF;
	return result_of(peer ? getpeername((int)socket, address, size)
			      : getsockname((int)socket, address, size));
}

int ob_host_socket_option_get(struct ob_host *host, uint32_t socket, uint32_t level, uint32_t name,
			      void *value, uint32_t *size)
{
	if (!is_open(host, socket))
		return -EBADF;
	return result_of(getsockopt((int)socket, (int)level, (int)name, value, size));
}

int ob_host_socket_option_set(struct ob_host *host, uint32_t socket, uint32_t level, uint32_t name,
			      const void *value, uint32_t size)
{
	if (!is_open(host, socket))
		return -EBADF;
	return result_of(setsockopt((int)socket, (int)level, (int)name, value, size));
}

/* One piece of memory and nothing else: the host has shorter calls for this. */
static bool is_plain(const struct ob_socket_message *message)
{
	return message->part_count == 1 && !message->address && !message->control;
}

static struct msghdr header_of(const struct ob_socket_message *message)
{
	return (struct msghdr){
		.msg_name = message->address,
		.msg_namelen = message->address_size,
		.msg_iov = (struct iovec *)message->parts,
		.msg_iovlen = message->part_count,
		.msg_control = message->control,
		.msg_controllen = message->control ? message->control_size : 0,
	};
}

int64_t ob_host_socket_send(struct ob_host *host, uint32_t socket,
			    const struct ob_socket_message *message)
{
	int flags = (int)message->flags | MSG_DONTWAIT | MSG_NOSIGNAL;
	struct msghdr header;
	ssize_t sent;

	if (!is_open(host, socket))
		return -EBADF;
	if (message->part_count > OB_SOCKET_PARTS)
		return -EINVAL;
	if (is_plain(message)) {
		sent = raw_send((int)socket, message->parts->address, message->parts->length,
				flags);
	} else {
		header = header_of(message);
		sent = raw_sendmsg((int)socket, &header, flags);
	}
	return sent < 0 ? -errno : sent;
}

static int64_t receive_message(int fd, struct ob_socket_message *message, int flags)
{
	struct msghdr header = header_of(message);
	ssize_t got = raw_recvmsg(fd, &header, flags);

	if (got < 0)
		return -errno;
	message->flags = (uint32_t)header.msg_flags;
	message->address_size = header.msg_namelen;
	message->control_size = (uint32_t)header.msg_controllen;
	return got;
}

int64_t ob_host_socket_receive(struct ob_host *host, uint32_t socket,
			       struct ob_socket_message *message)
{
	int flags = (int)message->flags | MSG_DONTWAIT;

	if (!is_open(host, socket))
		return -EBADF;
	if (message->part_count > OB_SOCKET_PARTS)
		return -EINVAL;
	return receive_message((int)socket, message, flags);
}

int ob_host_socket_queued(struct ob_host *host, uint32_t socket, enum ob_socket_queue queue)
{
	static const unsigned long requests[] = {
		[OB_SOCKET_RECEIVED] = FIONREAD,
		[OB_SOCKET_UNSENT] = SIOCOUTQ,
		[OB_SOCKET_AT_MARK] = SIOCATMARK,
	};
	int value = 0;

	if (!is_open(host, socket))
		return -EBADF;
	if (queue >= sizeof(requests) / sizeof(requests[0]))
		return -EINVAL;
	return ioctl((int)socket, requests[queue], &value) ? -errno : value;
}

int ob_host_socket_ready(struct ob_host *host, uint32_t socket)
{
	struct pollfd one = {
		.fd = (int)socket,
		.events = POLLIN | POLLPRI | POLLOUT | OB_SOCKET_RDHUP,
	};

	if (!is_open(host, socket))
		return -EBADF;
	return raw_poll(&one, 1, 0) < 0 ? -errno : one.revents;
}
