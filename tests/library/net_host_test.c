// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sockets of the host as a kernel's own: net_host_test VCPUS BYTES
 *
 * The other side of each connection is the host itself, in the same process, by the C library.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"

#define PIECE 65536
#define DATAGRAM_MOST 65507
#define MANY 200

/* ---- two stacks with the same calls ---------------------------------------- */

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

struct stack {
	long (*socket)(int family, int type, int protocol);
	long (*bind)(int fd, struct sockaddr *address, int size);
	long (*connect)(int fd, struct sockaddr *address, int size);
	long (*listen)(int fd, int backlog);
	long (*accept)(int fd, struct sockaddr *address, int *size);
	long (*name)(int fd, struct sockaddr *address, int *size);
	long (*peer)(int fd, struct sockaddr *address, int *size);
	long (*send)(int fd, void *bytes, size_t size, unsigned int flags,
		     struct sockaddr *address, int room);
	long (*receive)(int fd, void *bytes, size_t size, unsigned int flags,
			struct sockaddr *address, int *room);
	long (*close)(unsigned int fd);
};

static const struct stack kernel = {
	ob_sys_socket, ob_sys_bind, ob_sys_connect, ob_sys_listen, ob_sys_accept,
	ob_sys_getsockname, ob_sys_getpeername, ob_sys_sendto, ob_sys_recvfrom, ob_sys_close,
};

static const struct stack host = {
	host_socket, host_bind, host_connect, host_listen, host_accept,
	host_name, host_peer, host_send, host_receive, host_close,
};

/* One end of a connection. */
struct end {
	const struct stack *stack;
	int fd;
	unsigned int sends, receives;	/* numbers of the streams */
	uint64_t bytes;
};

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static int size_of(int family)
{
	return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static union address loopback(int family)
{
	union address address = { .any.sa_family = (sa_family_t)family };

	if (family == AF_INET)
		address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		address.in6.sin6_addr = in6addr_loopback;
	return address;
}

/* A socket at a free port of loopback, and its address. */
static int bound(const struct stack *stack, int family, int type, union address *address)
{
	int fd = (int)OK(stack->socket(family, type, 0)), size = sizeof(*address);

	*address = loopback(family);
	OK(stack->bind(fd, &address->any, size_of(family)));
	OK(stack->name(fd, &address->any, &size));
	CHECK_EQUAL(size, size_of(family));
	CHECK(address->in.sin_port);
	return fd;
}

/* Does the host have IPv6 on loopback? */
static bool has_ipv6(void)
{
	union address address = loopback(AF_INET6);
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);
	bool result = fd >= 0 && !bind(fd, &address.any, sizeof(address.in6));

	if (fd >= 0)
		OK(close(fd));
	return result;
}

static int listening(const struct stack *stack, int family, union address *address)
{
	int fd = bound(stack, family, SOCK_STREAM, address);

	OK(stack->listen(fd, MANY));
	return fd;
}

/* A connection of the two stacks. */
static void connected(const struct stack *server, const struct stack *client, int family,
		      struct end ends[2])
{
	union address address, own, peer;
	int size = sizeof(own), room = sizeof(peer), listener = listening(server, family, &address);

	ends[1] = (struct end){ client, (int)OK(client->socket(family, SOCK_STREAM, 0)), 2, 1, 0 };
	OK(client->connect(ends[1].fd, &address.any, size_of(family)));
	ends[0] = (struct end){ server, (int)OK(server->accept(listener, &peer.any, &room)),
				1, 2, 0 };
	OK(client->name(ends[1].fd, &own.any, &size));
	CHECK_EQUAL(size, room);
	CHECK(!memcmp(&own, &peer, (size_t)size));
	OK(client->peer(ends[1].fd, &peer.any, &room));
	CHECK(!memcmp(&address, &peer, (size_t)size));
	OK(server->close((unsigned int)listener));
}

static void close_both(struct end ends[2])
{
	for (int i = 0; i < 2; i++)
		OK(ends[i].stack->close((unsigned int)ends[i].fd));
}

/* A call that fails. */
#define FAILS(call, number)				\
	do {						\
		CHECK_EQUAL(call, -1);			\
		CHECK_EQUAL(errno, number);		\
	} while (0)

/* ---- streams ---------------------------------------------------------------- */

/* The byte at a place of a stream, so that each loss and each exchange is noticed. */
static unsigned char expected(uint64_t place, unsigned int stream)
{
	uint64_t word = (place / 8 + stream) * 0x9e3779b97f4a7c15ull;

	return (unsigned char)(word >> (place % 8 * 8));
}

static void *send_stream(void *argument)
{
	const struct end *end = argument;
	unsigned char *piece = malloc(PIECE);
	uint64_t done = 0;

	CHECK(piece);
	while (done < end->bytes) {
		uint64_t size = end->bytes - done < PIECE ? end->bytes - done : PIECE;
		uint64_t sent = 0;

		for (uint64_t i = 0; i < size; i++)
			piece[i] = expected(done + i, end->sends);
		while (sent < size)
			sent += (uint64_t)OK(end->stack->send(end->fd, piece + sent, size - sent,
							      0, NULL, 0));
		done += size;
	}
	free(piece);
	return NULL;
}

static void *receive_stream(void *argument)
{
	const struct end *end = argument;
	unsigned char *piece = malloc(PIECE);
	uint64_t done = 0;

	CHECK(piece);
	while (done < end->bytes) {
		long got = OK(end->stack->receive(end->fd, piece, PIECE, 0, NULL, NULL));

		CHECK(got > 0);
		for (long i = 0; i < got; i++)
			CHECK_EQUAL(piece[i], expected(done + (uint64_t)i, end->receives));
		done += (uint64_t)got;
	}
	free(piece);
	return NULL;
}

/* Both directions at once. */
static void exchange(struct end ends[2], uint64_t bytes)
{
	pthread_t threads[4];

	for (int i = 0; i < 2; i++) {
		ends[i].bytes = bytes;
		CHECK_EQUAL(pthread_create(&threads[i * 2], NULL, send_stream, &ends[i]), 0);
		CHECK_EQUAL(pthread_create(&threads[i * 2 + 1], NULL, receive_stream, &ends[i]),
			    0);
	}
	for (int i = 0; i < 4; i++)
		CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
}

static void test_streams(int family, uint64_t bytes)
{
	static const struct stack *const pairs[][2] = {
		{ &host, &kernel }, { &kernel, &host }, { &kernel, &kernel },
	};
	struct end ends[2];
	char byte;

	for (int i = 0; i < 3; i++) {
		connected(pairs[i][0], pairs[i][1], family, ends);
		exchange(ends, bytes);
		OK(ends[0].stack->close((unsigned int)ends[0].fd));
		CHECK_EQUAL(OK(ends[1].stack->receive(ends[1].fd, &byte, 1, 0, NULL, NULL)), 0);
		OK(ends[1].stack->close((unsigned int)ends[1].fd));
	}
}

/* ---- datagrams -------------------------------------------------------------- */

static void pass_datagram(const struct stack *from, int source, const struct stack *to, int sink,
			  union address *address, long size, union address *sender)
{
	static unsigned char bytes[DATAGRAM_MOST], got[DATAGRAM_MOST];
	int room = sizeof(*sender);

	for (long i = 0; i < size; i++)
		bytes[i] = expected((uint64_t)i, (unsigned int)size);
	CHECK_EQUAL(OK(from->send(source, bytes, (size_t)size, 0, &address->any,
				  size_of(address->any.sa_family))), size);
	CHECK_EQUAL(OK(to->receive(sink, got, sizeof(got), 0, &sender->any, &room)), size);
	CHECK_EQUAL(room, size_of(address->any.sa_family));
	CHECK(!memcmp(bytes, got, (size_t)size));
}

static void test_datagrams(int family)
{
	static const long sizes[] = { 0, 1, 100, 1472, 1473, 4096, 9000, 30000, DATAGRAM_MOST };
	union address here, there, from;
	int one = bound(&kernel, family, SOCK_DGRAM, &here);
	int two = bound(&host, family, SOCK_DGRAM, &there);
	char bytes[100];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pass_datagram(&kernel, one, &host, two, &there, sizes[i], &from);
		CHECK(!memcmp(&from, &here, (size_t)size_of(family)));
		pass_datagram(&host, two, &kernel, one, &here, sizes[i], &from);
		CHECK(!memcmp(&from, &there, (size_t)size_of(family)));
	}
	FAILS(ob_sys_sendto(one, bytes, 70000, 0, &there.any, size_of(family)), EMSGSIZE);
	/* A peek leaves the datagram, a short buffer loses its rest. */
	OK(sendto(two, "0123456789", 10, 0, &here.any, (socklen_t)size_of(family)));
	CHECK_EQUAL(OK(ob_sys_recvfrom(one, bytes, 4, MSG_PEEK | MSG_TRUNC, NULL, NULL)), 10);
	memset(bytes, 0, sizeof(bytes));
	CHECK_EQUAL(OK(ob_sys_recvfrom(one, bytes, 4, 0, NULL, NULL)), 4);
	CHECK(!strcmp(bytes, "0123"));
	FAILS(ob_sys_recvfrom(one, bytes, 4, MSG_DONTWAIT, NULL, NULL), EAGAIN);
	OK(ob_sys_close((unsigned int)one));
	OK(close(two));
}

/* Nobody has the port: the host's error comes with the next call. */
static void test_refused_datagram(void)
{
	union address nobody;
	int closed = bound(&host, AF_INET, SOCK_DGRAM, &nobody);
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));
	struct pollfd one = { fd, POLLIN, 0 };
	char byte = 0;

	OK(close(closed));
	OK(ob_sys_connect(fd, &nobody.any, sizeof(nobody.in)));
	OK(ob_sys_sendto(fd, &byte, 1, 0, NULL, 0));
	FAILS(ob_sys_recvfrom(fd, &byte, 1, 0, NULL, NULL), ECONNREFUSED);
	OK(ob_sys_sendto(fd, &byte, 1, 0, NULL, 0));
	CHECK_EQUAL(OK(ob_sys_poll(&one, 1, -1)), 1);
	CHECK(one.revents & POLLERR);
	FAILS(ob_sys_sendto(fd, &byte, 1, 0, NULL, 0), ECONNREFUSED);
	OK(ob_sys_close((unsigned int)fd));
}

/* ---- messages of several pieces ------------------------------------------------ */

#define PIECES 100

static void test_pieces(void)
{
	static char sent[PIECES][97], got[PIECES * 97];
	struct iovec from[PIECES], to[2] = { { got, 50 }, { got + 50, sizeof(got) - 50 } };
	struct msghdr out = { .msg_iov = from, .msg_iovlen = PIECES };
	struct msghdr in = { .msg_iov = to, .msg_iovlen = 2 };
	struct end ends[2];
	union address address;
	int one, two;

	for (int i = 0; i < PIECES; i++) {
		memset(sent[i], i, sizeof(sent[i]));
		from[i] = (struct iovec){ sent[i], sizeof(sent[i]) };
	}
	connected(&host, &kernel, AF_INET, ends);
	CHECK_EQUAL(OK(ob_sys_sendmsg(ends[1].fd, &out, 0)), sizeof(got));
	CHECK_EQUAL(OK(recv(ends[0].fd, got, sizeof(got), MSG_WAITALL)), sizeof(got));
	CHECK(!memcmp(sent, got, sizeof(got)));
	memset(got, 0, sizeof(got));
	OK(send(ends[0].fd, sent, sizeof(sent), 0));
	CHECK_EQUAL(OK(ob_sys_recvmsg(ends[1].fd, &in, MSG_WAITALL)), sizeof(got));
	CHECK(!memcmp(sent, got, sizeof(got)));
	close_both(ends);
	/* More pieces than one call of the host takes: one datagram all the same. */
	one = bound(&host, AF_INET, SOCK_DGRAM, &address);
	two = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, 0));
	OK(ob_sys_connect(two, &address.any, sizeof(address.in)));
	memset(got, 0, sizeof(got));
	CHECK_EQUAL(OK(ob_sys_sendmsg(two, &out, 0)), sizeof(got));
	CHECK_EQUAL(OK(recv(one, got, sizeof(got), 0)), sizeof(got));
	CHECK(!memcmp(sent, got, sizeof(got)));
	OK(close(one));
	OK(ob_sys_close((unsigned int)two));
}

/* Memory that the kernel maps has no mapping in the host before its first use. */
static void test_memory(void)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS, protection = PROT_READ | PROT_WRITE;
	char *mapped = ob_sys_mmap(NULL, 1 << 20, protection, flags, -1, 0);
	char *border = client_border(), *got = malloc(1 << 20);
	union address here, there;
	struct end ends[2];
	int one, two;

	CHECK(got && mapped != MAP_FAILED);
	connected(&host, &kernel, AF_INET, ends);
	memset(got, 7, 1 << 16);
	OK(send(ends[0].fd, got, 1 << 16, 0));
	CHECK_EQUAL(OK(ob_sys_recvfrom(ends[1].fd, mapped, 1 << 16, MSG_WAITALL, NULL, NULL)),
		    1 << 16);
	CHECK(!memcmp(mapped, got, 1 << 16));
	CHECK_EQUAL(OK(ob_sys_sendto(ends[1].fd, mapped + (1 << 19), 1 << 16, 0, NULL, 0)),
		    1 << 16);
	CHECK_EQUAL(OK(recv(ends[0].fd, got, 1 << 16, MSG_WAITALL)), 1 << 16);
	CHECK(!got[0] && !memcmp(got, got + 1, (1 << 16) - 1));
	/* Nobody may access what is behind the border: nothing of a stream is lost by that. */
	FAILS(ob_sys_sendto(ends[1].fd, border, 10, 0, NULL, 0), EFAULT);
	OK(send(ends[0].fd, "abcdef", 6, 0));
	FAILS(ob_sys_recvfrom(ends[1].fd, border, 6, 0, NULL, NULL), EFAULT);
	CHECK_EQUAL(OK(ob_sys_recvfrom(ends[1].fd, got, 6, 0, NULL, NULL)), 6);
	CHECK(!memcmp(got, "abcdef", 6));
	close_both(ends);
	one = bound(&kernel, AF_INET, SOCK_DGRAM, &here);
	two = bound(&host, AF_INET, SOCK_DGRAM, &there);
	mapped = ob_sys_mmap(NULL, 1 << 20, protection, flags, -1, 0);
	OK(sendto(two, "datagram", 8, 0, &here.any, sizeof(here.in)));
	CHECK_EQUAL(OK(ob_sys_recvfrom(one, mapped, 1 << 20, 0, NULL, NULL)), 8);
	CHECK(!memcmp(mapped, "datagram", 8));
	FAILS(ob_sys_sendto(one, border, 10, 0, &there.any, sizeof(there.in)), EFAULT);
	OK(ob_sys_close((unsigned int)one));
	OK(close(two));
	free(got);
}

/* ---- connections --------------------------------------------------------------- */

static int error_of(int fd)
{
	int error = -1, size = sizeof(error);

	OK(ob_sys_getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
	return error;
}

static void test_connect(void)
{
	union address address, nobody;
	int listener = listening(&host, AF_INET, &address), fd, taken;
	int closed = bound(&host, AF_INET, SOCK_STREAM, &nobody);
	struct pollfd one = { .events = POLLOUT };

	OK(close(closed));
	/* Without waiting. */
	one.fd = fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
	if (ob_sys_connect(fd, &address.any, sizeof(address.in)))
		CHECK_EQUAL(errno, EINPROGRESS);
	CHECK_EQUAL(OK(ob_sys_poll(&one, 1, -1)), 1);
	CHECK_EQUAL(one.revents, POLLOUT);
	CHECK_EQUAL(error_of(fd), 0);
	taken = (int)OK(accept(listener, NULL, NULL));
	OK(close(taken));
	OK(ob_sys_close((unsigned int)fd));
	/* Refused, and used again. */
	fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	FAILS(ob_sys_recvfrom(fd, &address, 1, 0, NULL, NULL), ENOTCONN);
	FAILS(ob_sys_connect(fd, &nobody.any, sizeof(nobody.in)), ECONNREFUSED);
	CHECK_EQUAL(error_of(fd), 0);
	FAILS(ob_sys_connect(fd, &nobody.any, sizeof(nobody.in)), ECONNREFUSED);
	OK(ob_sys_connect(fd, &address.any, sizeof(address.in)));
	FAILS(ob_sys_connect(fd, &address.any, sizeof(address.in)), EISCONN);
	OK(ob_sys_close((unsigned int)fd));
	/* Refused without waiting. */
	one.fd = fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
	CHECK_EQUAL(ob_sys_connect(fd, &nobody.any, sizeof(nobody.in)), -1);
	if (errno == EINPROGRESS) {
		CHECK_EQUAL(OK(ob_sys_poll(&one, 1, -1)), 1);
		CHECK(one.revents & POLLERR);
		CHECK_EQUAL(error_of(fd), ECONNREFUSED);
	} else {
		CHECK_EQUAL(errno, ECONNREFUSED);
	}
	OK(ob_sys_close((unsigned int)fd));
	FAILS(ob_sys_socket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
	FAILS(ob_sys_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP), ESOCKTNOSUPPORT);
	OK(close(listener));
}

static void *connect_many(void *argument)
{
	union address *address = argument;

	for (int i = 0; i < MANY; i++) {
		int fd = (int)OK(socket(AF_INET, SOCK_STREAM, 0));
		char byte = (char)i;

		OK(connect(fd, &address->any, sizeof(address->in)));
		OK(send(fd, &byte, 1, 0));
		CHECK_EQUAL(OK(recv(fd, &byte, 1, 0)), 1);
		CHECK_EQUAL(byte, (char)(i + 1));
		OK(close(fd));
	}
	return NULL;
}

static void *accept_many(void *argument)
{
	int listener = *(int *)argument;
	long fd;

	while ((fd = ob_sys_accept(listener, NULL, NULL)) >= 0) {
		char byte;

		CHECK_EQUAL(OK(ob_sys_recvfrom((int)fd, &byte, 1, 0, NULL, NULL)), 1);
		byte++;
		CHECK_EQUAL(OK(ob_sys_sendto((int)fd, &byte, 1, 0, NULL, 0)), 1);
		OK(ob_sys_close((unsigned int)fd));
	}
	/* The listener was shut down. */
	CHECK_EQUAL(errno, EINVAL);
	return NULL;
}

static void test_many(void)
{
	union address address;
	pthread_t clients[3], servers[3];
	int listener = listening(&kernel, AF_INET, &address);

	for (int i = 0; i < 3; i++) {
		CHECK_EQUAL(pthread_create(&servers[i], NULL, accept_many, &listener), 0);
		CHECK_EQUAL(pthread_create(&clients[i], NULL, connect_many, &address), 0);
	}
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(pthread_join(clients[i], NULL), 0);
	OK(ob_sys_shutdown(listener, SHUT_RDWR));
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(pthread_join(servers[i], NULL), 0);
	OK(ob_sys_close((unsigned int)listener));
}

/* ---- ends of connections ---------------------------------------------------------- */

static void reset(int fd)
{
	struct linger now = { .l_onoff = 1 };

	OK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	OK(close(fd));
}

static void test_reset(void)
{
	struct linger now = { .l_onoff = 1 };
	struct end ends[2];
	char bytes[8];

	/* Data that came before the reset are lost in Linux, too. */
	connected(&host, &kernel, AF_INET, ends);
	reset(ends[0].fd);
	FAILS(ob_sys_recvfrom(ends[1].fd, bytes, 1, 0, NULL, NULL), ECONNRESET);
	CHECK_EQUAL(OK(ob_sys_recvfrom(ends[1].fd, bytes, 1, 0, NULL, NULL)), 0);
	/* No signal of the kernel ends the program. */
	FAILS(ob_sys_sendto(ends[1].fd, bytes, 1, 0, NULL, 0), EPIPE);
	OK(ob_sys_close((unsigned int)ends[1].fd));
	/* The error is reported once, wherever it is asked for. */
	connected(&host, &kernel, AF_INET, ends);
	reset(ends[0].fd);
	struct pollfd one = { ends[1].fd, POLLIN, 0 };

	CHECK_EQUAL(OK(ob_sys_poll(&one, 1, -1)), 1);
	CHECK(one.revents & POLLERR && one.revents & POLLHUP);
	CHECK_EQUAL(error_of(ends[1].fd), ECONNRESET);
	CHECK_EQUAL(error_of(ends[1].fd), 0);
	OK(ob_sys_close((unsigned int)ends[1].fd));
	/* The kernel's side resets. */
	connected(&host, &kernel, AF_INET, ends);
	OK(ob_sys_setsockopt(ends[1].fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	OK(ob_sys_close((unsigned int)ends[1].fd));
	FAILS(recv(ends[0].fd, bytes, 1, 0), ECONNRESET);
	OK(close(ends[0].fd));
}

static void test_half_close(void)
{
	struct linger wait = { 1, 5 };
	struct end ends[2];
	char bytes[16];

	connected(&host, &kernel, AF_INET, ends);
	OK(ob_sys_sendto(ends[1].fd, "question", 8, 0, NULL, 0));
	OK(ob_sys_shutdown(ends[1].fd, SHUT_WR));
	FAILS(ob_sys_sendto(ends[1].fd, "x", 1, MSG_NOSIGNAL, NULL, 0), EPIPE);
	CHECK_EQUAL(OK(recv(ends[0].fd, bytes, 16, MSG_WAITALL)), 8);
	OK(send(ends[0].fd, "answer", 6, 0));
	CHECK_EQUAL(OK(ob_sys_recvfrom(ends[1].fd, bytes, 16, 0, NULL, NULL)), 6);
	OK(ob_sys_setsockopt(ends[1].fd, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)));
	close_both(ends);
}

/* A child has no kernel, and keeps no connection of its parent's kernel open. */
static void test_fork(void)
{
	struct end ends[2];
	int tube[2], status;
	pid_t child;
	char byte;

	connected(&host, &kernel, AF_INET, ends);
	OK(pipe(tube));
	child = (pid_t)OK(fork());
	if (!child) {
		OK(close(tube[1]));
		_exit(read(tube[0], &byte, 1) ? 1 : 0);
	}
	OK(close(tube[0]));
	OK(ob_sys_close((unsigned int)ends[1].fd));
	CHECK_EQUAL(OK(recv(ends[0].fd, &byte, 1, 0)), 0);
	OK(close(tube[1]));
	OK(waitpid(child, &status, 0));
	CHECK_EQUAL(status, 0);
	OK(close(ends[0].fd));
}

/* ---- threads that wait -------------------------------------------------------------- */

struct waiter {
	pthread_t thread;
	int fd;
	volatile long number;
	int (*call)(int fd);		/* returns errno, or 0 */
	int result;
};

static int receive_one(int fd)
{
	char byte;
	long got = ob_sys_recvfrom(fd, &byte, 1, 0, NULL, NULL);

	return got < 0 ? errno : got ? 1000 : 0;
}

static int accept_one(int fd)
{
	return ob_sys_accept(fd, NULL, NULL) < 0 ? errno : 0;
}

static int fill(int fd)
{
	static char bytes[PIECE];

	while (ob_sys_sendto(fd, bytes, sizeof(bytes), 0, NULL, 0) > 0)
		continue;
	return errno;
}

static int poll_one(int fd)
{
	struct pollfd one = { fd, POLLIN, 0 };

	return ob_sys_poll(&one, 1, -1) < 0 ? errno : one.revents;
}

static void *wait_in_call(void *argument)
{
	struct waiter *waiter = argument;

	waiter->number = ob_sys_gettid();
	waiter->result = waiter->call(waiter->fd);
	return NULL;
}

static void start(struct waiter *waiter, int fd, int (*call)(int fd))
{
	*waiter = (struct waiter){ .fd = fd, .call = call };
	CHECK_EQUAL(pthread_create(&waiter->thread, NULL, wait_in_call, waiter), 0);
	client_wait_until_asleep(&waiter->number);
}

static int finish(struct waiter *waiter)
{
	CHECK_EQUAL(pthread_join(waiter->thread, NULL), 0);
	return waiter->result;
}

/* ---- connections that take long ------------------------------------------------------- */

static union address full;		/* of a socket whose queue is full */

static int connect_to_full(int fd)
{
	return ob_sys_connect(fd, &full.any, sizeof(full.in)) ? errno : 0;
}

/* The host drops the first packet of a connection while the queue is full. */
static void test_slow_connect(void)
{
	int listener = bound(&host, AF_INET, SOCK_STREAM, &full), first, fd;
	struct pollfd one = { .events = POLLOUT };
	struct waiter waiter;

	OK(listen(listener, 0));
	for (int waits = 0; waits < 2; waits++) {
		first = (int)OK(socket(AF_INET, SOCK_STREAM, 0));
		OK(connect(first, &full.any, sizeof(full.in)));
		one.fd = fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
		if (waits) {
			start(&waiter, fd, connect_to_full);
			CHECK_EQUAL(ob_interrupt((int)waiter.number), 0);
			CHECK_EQUAL(finish(&waiter), EINTR);
			start(&waiter, fd, connect_to_full);
		} else {
			OK(ob_sys_fcntl((unsigned int)fd, F_SETFL, O_NONBLOCK));
			CHECK_EQUAL(connect_to_full(fd), EINPROGRESS);
			CHECK_EQUAL(connect_to_full(fd), EALREADY);
			CHECK_EQUAL(OK(ob_sys_poll(&one, 1, 0)), 0);
		}
		OK(close((int)OK(accept(listener, NULL, NULL))));
		OK(close((int)OK(accept(listener, NULL, NULL))));
		if (waits)
			CHECK_EQUAL(finish(&waiter), 0);
		CHECK_EQUAL(OK(ob_sys_poll(&one, 1, -1)), 1);
		CHECK_EQUAL(error_of(fd), 0);
		OK(close(first));
		OK(ob_sys_close((unsigned int)fd));
	}
	OK(close(listener));
}

static void test_interrupt(void)
{
	int (*const calls[])(int) = { receive_one, poll_one, fill };
	struct waiter waiter;
	struct end ends[2];
	union address address;
	int listener = listening(&kernel, AF_INET, &address);

	start(&waiter, listener, accept_one);
	CHECK_EQUAL(ob_interrupt((int)waiter.number), 0);
	CHECK_EQUAL(finish(&waiter), EINTR);
	OK(ob_sys_close((unsigned int)listener));
	connected(&host, &kernel, AF_INET, ends);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		start(&waiter, ends[1].fd, calls[i]);
		CHECK_EQUAL(ob_interrupt((int)waiter.number), 0);
		CHECK_EQUAL(finish(&waiter), EINTR);
	}
	close_both(ends);
}

static void test_others_end_a_wait(void)
{
	struct timeval soon = { .tv_usec = 20000 };
	struct waiter waiter;
	struct end ends[2];

	/* A shutdown by another thread. */
	connected(&host, &kernel, AF_INET, ends);
	start(&waiter, ends[1].fd, receive_one);
	OK(ob_sys_shutdown(ends[1].fd, SHUT_RDWR));
	CHECK_EQUAL(finish(&waiter), 0);
	close_both(ends);
	/* A close by another thread: the call has the socket still, as in Linux. */
	connected(&host, &kernel, AF_INET, ends);
	start(&waiter, ends[1].fd, receive_one);
	OK(ob_sys_close((unsigned int)ends[1].fd));
	OK(send(ends[0].fd, "x", 1, 0));
	CHECK_EQUAL(finish(&waiter), 1000);
	CHECK_EQUAL(OK(recv(ends[0].fd, &soon, 1, 0)), 0);
	OK(close(ends[0].fd));
	/* Its own limit of time. */
	connected(&host, &kernel, AF_INET, ends);
	OK(ob_sys_setsockopt(ends[1].fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon)));
	FAILS(ob_sys_recvfrom(ends[1].fd, &soon, 1, 0, NULL, NULL), EAGAIN);
	close_both(ends);
}

/* ---- poll and epoll ------------------------------------------------------------------ */

static void test_epoll(uint32_t edge)
{
	int epoll = (int)OK(ob_sys_epoll_create1(0));
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | edge };
	struct end ends[2];
	char bytes[4];

	connected(&host, &kernel, AF_INET, ends);
	event.data.fd = ends[1].fd;
	OK(ob_sys_epoll_ctl(epoll, EPOLL_CTL_ADD, ends[1].fd, &event));
	CHECK_EQUAL(OK(ob_sys_epoll_wait(epoll, &event, 1, 0)), 0);
	for (int i = 0; i < 50; i++) {
		OK(send(ends[0].fd, "abc", 3, 0));
		CHECK_EQUAL(OK(ob_sys_epoll_wait(epoll, &event, 1, -1)), 1);
		CHECK_EQUAL(event.events, EPOLLIN);
		if (!edge)
			CHECK_EQUAL(OK(ob_sys_epoll_wait(epoll, &event, 1, 0)), 1);
		/*
		 * A short read says that there is no more, as EAGAIN does. A full read does not,
		 * but what comes after it is an event, too.
		 */
		CHECK_EQUAL(OK(ob_sys_recvfrom(ends[1].fd, bytes, i % 3 ? 4 : 3, 0, NULL, NULL)),
			    3);
		if (i % 3 == 1)
			FAILS(ob_sys_recvfrom(ends[1].fd, bytes, 4, MSG_DONTWAIT, NULL, NULL),
			      EAGAIN);
	}
	OK(shutdown(ends[0].fd, SHUT_WR));
	CHECK_EQUAL(OK(ob_sys_epoll_wait(epoll, &event, 1, -1)), 1);
	CHECK_EQUAL(event.events, EPOLLIN | EPOLLRDHUP);
	close_both(ends);
	CHECK_EQUAL(OK(ob_sys_epoll_wait(epoll, &event, 1, 0)), 0);
	OK(ob_sys_close((unsigned int)epoll));
}

/* The socket takes no more, until the peer has read. */
static void test_room(void)
{
	static char bytes[PIECE];
	struct pollfd one = { .events = POLLOUT };
	struct end ends[2];
	long sent = 0, got = 0, result;

	connected(&host, &kernel, AF_INET, ends);
	one.fd = ends[1].fd;
	while ((result = ob_sys_sendto(one.fd, bytes, sizeof(bytes), MSG_DONTWAIT, NULL, 0)) > 0)
		sent += result;
	CHECK_EQUAL(errno, EAGAIN);
	CHECK_EQUAL(OK(ob_sys_poll(&one, 1, 0)), 0);
	while (got < sent)
		got += OK(recv(ends[0].fd, bytes, sizeof(bytes), 0));
	CHECK_EQUAL(OK(ob_sys_poll(&one, 1, -1)), 1);
	CHECK_EQUAL(one.revents, POLLOUT);
	close_both(ends);
}

static void test_queues(void)
{
	struct end ends[2];
	char bytes[10];
	int count = -1;

	connected(&host, &kernel, AF_INET, ends);
	OK(ob_sys_ioctl((unsigned int)ends[1].fd, FIONREAD, (unsigned long)&count));
	CHECK_EQUAL(count, 0);
	OK(send(ends[0].fd, "0123456789", 10, 0));
	CHECK_EQUAL(poll_one(ends[1].fd), POLLIN);
	OK(ob_sys_ioctl((unsigned int)ends[1].fd, FIONREAD, (unsigned long)&count));
	CHECK_EQUAL(count, 10);
	CHECK_EQUAL(OK(ob_sys_recvfrom(ends[1].fd, bytes, 10, MSG_PEEK, NULL, NULL)), 10);
	CHECK_EQUAL(OK(ob_sys_recvfrom(ends[1].fd, bytes, 10, 0, NULL, NULL)), 10);
	OK(ob_sys_ioctl((unsigned int)ends[1].fd, SIOCOUTQ, (unsigned long)&count));
	CHECK_EQUAL(count, 0);
	close_both(ends);
}

/* ---- options ----------------------------------------------------------------------------- */

struct option {
	int level, name, value, stored;
};

static void check_option(int fd, int level, int name, int value, int stored)
{
	int got = -1, size = sizeof(got);

	OK(ob_sys_setsockopt(fd, level, name, &value, sizeof(value)));
	OK(ob_sys_getsockopt(fd, level, name, &got, &size));
	CHECK_EQUAL(got, stored);
	CHECK_EQUAL(size, sizeof(got));
}

static void test_options(void)
{
	static const struct option good[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1, 1 }, { IPPROTO_TCP, TCP_KEEPIDLE, 77, 77 },
		{ IPPROTO_IP, IP_TTL, 33, 33 }, { IPPROTO_IP, IP_TOS, 16, 16 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1, 1 }, { SOL_SOCKET, SO_REUSEADDR, 1, 1 },
		{ SOL_SOCKET, SO_RCVLOWAT, 3, 3 },
	};
	static const struct option bad[] = {
		{ SOL_SOCKET, SO_ATTACH_BPF, 0, 0 }, { SOL_SOCKET, SO_BINDTODEVICE, 0, 0 },
		{ SOL_SOCKET, 9999, 0, 0 }, { IPPROTO_TCP, TCP_ULP, 0, 0 },
		{ IPPROTO_TCP, 9999, 0, 0 }, { IPPROTO_IP, 64, 0, 0 }, { 12345, 1, 0, 0 },
	};
	int fd = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0)), value = 1;
	int mine = (int)OK(socket(AF_INET, SOCK_STREAM, 0)), kernels = 20000, hosts = 20000;
	int size = sizeof(hosts), type = 0;
	struct tcp_info info;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		check_option(fd, good[i].level, good[i].name, good[i].value, good[i].stored);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		FAILS(ob_sys_setsockopt(fd, bad[i].level, bad[i].name, &value, sizeof(value)),
		      ENOPROTOOPT);
	/* The host decides how large a buffer is. */
	OK(ob_sys_setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kernels, sizeof(kernels)));
	OK(setsockopt(mine, SOL_SOCKET, SO_SNDBUF, &hosts, sizeof(hosts)));
	OK(ob_sys_getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kernels, &size));
	OK(getsockopt(mine, SOL_SOCKET, SO_SNDBUF, &hosts, (socklen_t *)&size));
	CHECK_EQUAL(kernels, hosts);
	OK(ob_sys_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size));
	CHECK_EQUAL(type, SOCK_STREAM);
	size = sizeof(info);
	OK(ob_sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size));
	CHECK(size > 100 && info.tcpi_state == TCP_CLOSE);
	FAILS(ob_sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, client_border(), &size), EFAULT);
	OK(ob_sys_close((unsigned int)fd));
	if (has_ipv6()) {
		fd = (int)OK(ob_sys_socket(AF_INET6, SOCK_STREAM, 0));
		check_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1, 1);
		OK(ob_sys_close((unsigned int)fd));
	}
	OK(close(mine));
}

/* A control message tells the time to live. One that names files is refused. */
static void test_controls(void)
{
	union { struct cmsghdr first; char bytes[100]; } control;
	char byte;
	struct iovec piece = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	union address here, there;
	int one = bound(&kernel, AF_INET, SOCK_DGRAM, &here);
	int two = bound(&host, AF_INET, SOCK_DGRAM, &there), value = 1, ttl;

	OK(ob_sys_setsockopt(one, IPPROTO_IP, IP_RECVTTL, &value, sizeof(value)));
	value = 44;
	OK(setsockopt(two, IPPROTO_IP, IP_TTL, &value, sizeof(value)));
	OK(sendto(two, "x", 1, 0, &here.any, sizeof(here.in)));
	CHECK_EQUAL(OK(ob_sys_recvmsg(one, &message, 0)), 1);
	CHECK_EQUAL(control.first.cmsg_level, IPPROTO_IP);
	CHECK_EQUAL(control.first.cmsg_type, IP_TTL);
	memcpy(&ttl, CMSG_DATA(&control.first), sizeof(ttl));
	CHECK_EQUAL(ttl, 44);
	OK(ob_sys_connect(one, &there.any, sizeof(there.in)));
	control.first = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.first), &two, sizeof(two));
	message.msg_controllen = CMSG_SPACE(sizeof(int));
	FAILS(ob_sys_sendmsg(one, &message, 0), EINVAL);
	OK(ob_sys_close((unsigned int)one));
	OK(close(two));
}

/* The host may not allow it. */
static void test_echo(void)
{
	int mine = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), error = errno, fd;
	unsigned char request[16] = { 8 }, answer[16];
	union address address = loopback(AF_INET);

	if (mine < 0) {
		FAILS(ob_sys_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP), error);
		return;
	}
	OK(close(mine));
	fd = (int)OK(ob_sys_socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP));
	memcpy(request + 8, "contents", 8);
	OK(ob_sys_sendto(fd, request, sizeof(request), 0, &address.any, sizeof(address.in)));
	CHECK_EQUAL(OK(ob_sys_recvfrom(fd, answer, sizeof(answer), 0, NULL, NULL)),
		    sizeof(answer));
	CHECK_EQUAL(answer[0], 0);
	CHECK(!memcmp(answer + 8, "contents", 8));
	OK(ob_sys_close((unsigned int)fd));
}

/* ---- descriptions ------------------------------------------------------------------------- */

static void refused(const char *description, int error, const char *why)
{
	CHECK_EQUAL(ob_net_add(description, NULL), error);
	if (!strstr(ob_net_error(), why)) {
		fprintf(stderr, "%s: %s\n", description, ob_net_error());
		CHECK(!"the message");
	}
}

static int add(void)
{
	char name[16];
	int number = ob_net_add("host", name);

	if (number < 0)
		fprintf(stderr, "%s\n", ob_net_error());
	CHECK(number >= 0);
	CHECK(!strcmp(name, "host"));
	return number;
}

/* Closes the kernel's socket: does that free a descriptor of the host? */
static bool is_hosts(int fd)
{
	long before = client_belongings().descriptors;

	OK(ob_sys_close((unsigned int)fd));
	return client_belongings().descriptors < before;
}

static void test_descriptions(const char *hub)
{
	int before, number, after, own;

	refused("host:x", -EINVAL, "there is one host");
	refused("host,ip=10.0.0.1/24", -EINVAL, "its only word is dns");
	own = ob_net_add(hub, NULL);
	CHECK(own >= 0);
	refused("host", -EBUSY, "eth0");
	CHECK_EQUAL(ob_net_remove(own), 0);
	before = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	number = add();
	refused("host", -EBUSY, "remove the interface host");
	refused(hub, -EBUSY, "remove the interface host");
	CHECK(!is_hosts(before));
	before = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	/* A new network namespace has sockets of the kernel's own. */
	OK(ob_sys_unshare(0x40000000 /* CLONE_NEWNET */));
	CHECK_EQUAL(ob_net_remove(number), 0);
	CHECK(is_hosts(before));
	after = (int)OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	CHECK(!is_hosts(after));
	own = ob_net_add("host,dns=127.0.0.1", NULL);
	CHECK(own >= 0);
	CHECK_EQUAL(ob_net_remove(own), 0);
}

/* A halt ends what is open: calls, connections, descriptors of the host. */
static void test_halt(unsigned int vcpus, struct client_belongings before)
{
	struct waiter waiter;
	struct end ends[2];
	union address address;
	char byte;

	connected(&host, &kernel, AF_INET, ends);
	listening(&kernel, AF_INET, &address);
	start(&waiter, ends[1].fd, receive_one);
	CHECK_EQUAL(ob_halt(), 0);
	CHECK_EQUAL(finish(&waiter), ENODEV);
	CHECK_EQUAL(OK(recv(ends[0].fd, &byte, 1, 0)), 0);
	OK(close(ends[0].fd));
	client_check_files_and_threads(before);
	client_boot(vcpus);
	add();
	connected(&host, &kernel, AF_INET, ends);
	exchange(ends, PIECE);
	CHECK_EQUAL(ob_halt(), 0);
	OK(close(ends[0].fd));
	client_check_files_and_threads(before);
}

int main(int argc, char **argv)
{
	unsigned int vcpus = argc > 3 ? (unsigned int)atoi(argv[1]) : 1;
	struct client_belongings before;
	uint64_t bytes;

	CHECK(argc == 4);
	bytes = strtoull(argv[2], NULL, 10);
	client_boot(vcpus);
	test_descriptions(argv[3]);
	CHECK_EQUAL(ob_halt(), 0);
	/* The library keeps its archive of components open. */
	before = client_belongings();
	client_boot(vcpus);
	add();
	test_streams(AF_INET, bytes);
	test_datagrams(AF_INET);
	if (has_ipv6()) {
		test_streams(AF_INET6, bytes);
		test_datagrams(AF_INET6);
	}
	test_refused_datagram();
	test_pieces();
	test_memory();
	test_connect();
	test_slow_connect();
	test_many();
	test_reset();
	test_half_close();
	test_fork();
	test_interrupt();
	test_others_end_a_wait();
	test_epoll(0);
	test_epoll(EPOLLET);
	test_room();
	test_queues();
	test_options();
	test_controls();
	test_echo();
	test_halt(vcpus, before);
	return 0;
}
