// SPDX-License-Identifier: GPL-2.0-only
/* Threads that wait for the host's sockets: what ends their calls, poll and epoll. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "net_host_bed.h"

/* ---- calls that wait --------------------------------------------------------------- */

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

void test_waits(void)
{
	test_interrupt();
	test_others_end_a_wait();
	test_epoll(0);
	test_epoll(EPOLLET);
	test_room();
	test_queues();
}
