// SPDX-License-Identifier: GPL-2.0-only
/* Transfers over the host's sockets: streams, datagrams, pieces, memory of all kinds. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net_host_bed.h"
#include "stream.h"

#define DATAGRAM_MOST 65507

/* ---- streams ---------------------------------------------------------------- */

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
		bytes[i] = stream_byte((uint64_t)i, (unsigned int)size);
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

void test_transfers(uint64_t bytes)
{
	test_streams(AF_INET, bytes);
	test_datagrams(AF_INET);
	if (has_ipv6()) {
		test_streams(AF_INET6, bytes);
		test_datagrams(AF_INET6);
	}
	test_refused_datagram();
	test_pieces();
	test_memory();
}
