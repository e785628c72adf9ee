// SPDX-License-Identifier: GPL-2.0-only
/* Connections by the host's sockets: how they come about, are refused, take long, and end. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net_host_bed.h"

#define MANY 200

/* ---- connections --------------------------------------------------------------- */

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

void test_connections(void)
{
	test_connect();
	test_slow_connect();
	test_many();
	test_reset();
	test_half_close();
	test_fork();
}
