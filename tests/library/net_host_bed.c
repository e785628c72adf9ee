// SPDX-License-Identifier: GPL-2.0-only
/* The two stacks of the tests of the host's sockets, and threads that wait: net_host_bed.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "net_host_bed.h"
#include "stream.h"

static long host_socket(int family, int type, int protocol)
{
	return socket(family, type | SOCK_CLOEXEC, protocol);
}

static long host_bind(int fd, struct sockaddr *address, int size)
{
	return bind(fd, address, (socklen_t)size);
}

static long host_connect(int fd, struct sockaddr *address, int size)
{
	return connect(fd, address, (socklen_t)size);
}

static long host_listen(int fd, int backlog)
{
	return listen(fd, backlog);
}

static long host_accept(int fd, struct sockaddr *address, int *size)
{
	return accept(fd, address, (socklen_t *)size);
}

static long host_name(int fd, struct sockaddr *address, int *size)
{
	return getsockname(fd, address, (socklen_t *)size);
}

static long host_peer(int fd, struct sockaddr *address, int *size)
{
	return getpeername(fd, address, (socklen_t *)size);
}

static long host_send(int fd, void *bytes, size_t size, unsigned int flags,
		      struct sockaddr *address, int room)
{
	return sendto(fd, bytes, size, (int)flags, address, (socklen_t)room);
}

static long host_receive(int fd, void *bytes, size_t size, unsigned int flags,
			 struct sockaddr *address, int *room)
{
	return recvfrom(fd, bytes, size, (int)flags, address, (socklen_t *)room);
}

static long host_close(unsigned int fd)
{
	return close((int)fd);
}

const struct stack kernel = {
	ob_sys_socket, ob_sys_bind, ob_sys_connect, ob_sys_listen, ob_sys_accept,
	ob_sys_getsockname, ob_sys_getpeername, ob_sys_sendto, ob_sys_recvfrom, ob_sys_close,
};

const struct stack host = {
	host_socket, host_bind, host_connect, host_listen, host_accept,
	host_name, host_peer, host_send, host_receive, host_close,
};

int size_of(int family)
{
	return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

union address loopback(int family)
{
	union address address = { .any.sa_family = (sa_family_t)family };

	if (family == AF_INET)
		address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		address.in6.sin6_addr = in6addr_loopback;
	return address;
}

int bound(const struct stack *stack, int family, int type, union address *address)
{
	int fd = (int)OK(stack->socket(family, type, 0)), size = sizeof(*address);

	*address = loopback(family);
	OK(stack->bind(fd, &address->any, size_of(family)));
	OK(stack->name(fd, &address->any, &size));
	CHECK_EQUAL(size, size_of(family));
	CHECK(address->in.sin_port);
	return fd;
}

bool has_ipv6(void)
{
	union address address = loopback(AF_INET6);
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool result = fd >= 0 && !bind(fd, &address.any, sizeof(address.in6));

	if (fd >= 0)
		OK(close(fd));
	return result;
}

int listening(const struct stack *stack, int family, union address *address)
{
	int fd = bound(stack, family, SOCK_STREAM, address);

	OK(stack->listen(fd, SOMAXCONN));
	return fd;
}

void connected(const struct stack *server, const struct stack *client, int family,
		      struct end ends[2])
{
	union address address, own, peer;
	int size = sizeof(own), room = sizeof(peer), listener = listening(server, family, &address);

	ends[1] = (struct end){ client, (int)OK(client->socket(family, SOCK_STREAM, 0)) };
	OK(client->connect(ends[1].fd, &address.any, size_of(family)));
	ends[0] = (struct end){ server, (int)OK(server->accept(listener, &peer.any, &room)) };
	OK(client->name(ends[1].fd, &own.any, &size));
	CHECK_EQUAL(size, room);
	CHECK(!memcmp(&own, &peer, (size_t)size));
	OK(client->peer(ends[1].fd, &peer.any, &room));
	CHECK(!memcmp(&address, &peer, (size_t)size));
	OK(server->close((unsigned int)listener));
}

void close_both(struct end ends[2])
{
	for (int i = 0; i < 2; i++)
		OK(ends[i].stack->close((unsigned int)ends[i].fd));
}

int error_of(int fd)
{
	int error = -1, size = sizeof(error);

	OK(ob_sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
	return error;
}

/* ---- streams ---------------------------------------------------------------- */

static long send_some(const struct stream *stream, const void *bytes, size_t size)
{
	const struct stack *stack = stream->context;

	return OK(stack->send(stream->fd, (void *)bytes, size, 0, NULL, 0));
}

static long receive_some(const struct stream *stream, void *bytes, size_t room)
{
	const struct stack *stack = stream->context;

	return OK(stack->receive(stream->fd, bytes, room, 0, NULL, NULL));
}

static struct stream stream_of(const struct end *end, unsigned int sends, unsigned int receives,
			       uint64_t bytes)
{
	return (struct stream){
		send_some, receive_some, (void *)end->stack, end->fd, sends, receives, bytes,
	};
}

static void *exchange_on_thread(void *stream)
{
	stream_exchange(stream);
	return NULL;
}

void exchange(const struct end ends[2], uint64_t bytes)
{
	struct stream one = stream_of(&ends[0], 1, 2, bytes);
	struct stream two = stream_of(&ends[1], 2, 1, bytes);
	pthread_t thread;

	CHECK_EQUAL(pthread_create(&thread, NULL, exchange_on_thread, &one), 0);
	stream_exchange(&two);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

/* ---- threads that wait -------------------------------------------------------------- */

int receive_one(int fd)
{
	char byte;
	long got = ob_sys_recvfrom(fd, &byte, 1, 0, NULL, NULL);

	return got < 0 ? errno : got ? 1000 : 0;
}

static void *wait_in_call(void *argument)
{
	struct waiter *waiter = argument;

	waiter->number = ob_sys_gettid();
	waiter->result = waiter->call(waiter->fd);
	return NULL;
}

void start(struct waiter *waiter, int fd, int (*call)(int fd))
{
	*waiter = (struct waiter){ .fd = fd, .call = call };
	CHECK_EQUAL(pthread_create(&waiter->thread, NULL, wait_in_call, waiter), 0);
	client_wait_until_asleep(&waiter->number);
}

int finish(struct waiter *waiter)
{
	CHECK_EQUAL(pthread_join(waiter->thread, NULL), 0);
	return waiter->result;
}
