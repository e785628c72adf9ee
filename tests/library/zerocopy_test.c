// SPDX-License-Identifier: GPL-2.0-only
/*
 * Data that the kernel takes by reference from memory that it did not map: MSG_ZEROCOPY of TCP and
 * UDP, vmsplice(), and SEND_ZC of io_uring. They arrive whole. The notices of MSG_ZEROCOPY report
 * them as copied.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"

#define KB 1024l
#define SIZE (300 * KB)

/* A buffer of the program that begins in the middle of a page. */
static char buffer[SIZE + 100], got[SIZE];
static char *const data = buffer + 100;
static int one = 1;

static struct sockaddr_in6 loopback(int port)
{
	return (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port),
				      .sin6_addr = IN6ADDR_LOOPBACK_INIT };
}

static int make_socket(int type)
{
	int fd = (int)OK(ob_sys_socket(AF_INET6, type, 0));

	OK(ob_sys_setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, (char *)&one, sizeof(one)));
	return fd;
}

/* Connected sockets: ends[0] sends, ends[1] receives. */
static void connect_tcp(int ends[2], int port)
{
	struct sockaddr_in6 address = loopback(port);
	int listener = make_socket(SOCK_STREAM);

	OK(ob_sys_bind(listener, (struct sockaddr *)&address, sizeof(address)));
	OK(ob_sys_listen(listener, 1));
	ends[0] = make_socket(SOCK_STREAM);
	OK(ob_sys_connect(ends[0], (struct sockaddr *)&address, sizeof(address)));
	ends[1] = (int)OK(ob_sys_accept(listener, NULL, NULL));
	OK(ob_sys_close(listener));
}

static void connect_udp(int ends[2], int port)
{
	struct sockaddr_in6 address = loopback(port);

	ends[0] = make_socket(SOCK_DGRAM);
	ends[1] = make_socket(SOCK_DGRAM);
	OK(ob_sys_bind(ends[1], (struct sockaddr *)&address, sizeof(address)));
	OK(ob_sys_connect(ends[0], (struct sockaddr *)&address, sizeof(address)));
}

static void close_both(const int ends[2])
{
	OK(ob_sys_close(ends[0]));
	OK(ob_sys_close(ends[1]));
}

struct transfer {
	int fd;
	long size;
};

static void *receive_all(void *argument)
{
	const struct transfer *transfer = argument;
	long done = 0;

	while (done < transfer->size)
		done += OK(ob_sys_read(transfer->fd, got + done, (size_t)(transfer->size - done)));
	return NULL;
}

/* The next notice: the numbers of sends that are over. False: there is none now. */
static bool take_notice(int fd, uint32_t *first, uint32_t *last)
{
	char control[200];
	struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };
	struct sock_extended_err error;
	struct cmsghdr *part;

	if (ob_sys_recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
		CHECK_EQUAL(errno, EAGAIN);
		return false;
	}
	part = CMSG_FIRSTHDR(&message);
	CHECK(part);
	memcpy(&error, CMSG_DATA(part), sizeof(error));
	CHECK_EQUAL(error.ee_errno, 0);
	CHECK_EQUAL(error.ee_origin, SO_EE_ORIGIN_ZEROCOPY);
	CHECK_EQUAL(error.ee_code, SO_EE_CODE_ZEROCOPY_COPIED);
	*first = error.ee_info;
	*last = error.ee_data;
	return true;
}

/* Waits for the notices of the sends up to that number, from `next` on. Returns the next number. */
static uint32_t take_notices(int fd, uint32_t next, uint32_t last_wanted)
{
	uint32_t first, last;

	while (next <= last_wanted) {
		struct pollfd event = { .fd = fd };

		CHECK_EQUAL(OK(ob_sys_poll(&event, 1, 60000)), 1);
		CHECK(event.revents & POLLERR);
		while (take_notice(fd, &first, &last)) {
			CHECK_EQUAL(first, next);
			next = last + 1;
		}
	}
	return next;
}

/* One send of all pieces, and what arrives. */
static void send_tcp(const int ends[2], struct iovec *pieces, size_t count, uint32_t number)
{
	struct msghdr message = { .msg_iov = pieces, .msg_iovlen = count };
	struct transfer transfer = { .fd = ends[1] };
	long done = 0, at = 0;
	pthread_t thread;

	for (size_t i = 0; i < count; i++)
		transfer.size += (long)pieces[i].iov_len;
	CHECK(!pthread_create(&thread, NULL, receive_all, &transfer));
	done = OK(ob_sys_sendmsg(ends[0], &message, MSG_ZEROCOPY));
	CHECK_EQUAL(done, transfer.size);
	CHECK(!pthread_join(thread, NULL));
	for (size_t i = 0; i < count; at += (long)pieces[i++].iov_len)
		CHECK(!memcmp(got + at, pieces[i].iov_base, pieces[i].iov_len));
	take_notices(ends[0], number, number);
}

static void test_tcp(char *window)
{
	struct iovec small = { data, 1 }, large = { data, SIZE };
	struct iovec mixed[] = {
		{ data + 5, 3 }, { window, 10 * KB }, { data, 0 }, { data + 7000, 50 * KB },
		{ window + 1, 1 },
	};
	struct iovec mapped = { window, 20 * KB };
	struct msghdr none = { .msg_iov = &small };
	int ends[2];

	connect_tcp(ends, 1000);
	send_tcp(ends, &small, 1, 0);
	send_tcp(ends, &large, 1, 1);
	send_tcp(ends, mixed, 5, 2);
	send_tcp(ends, &mapped, 1, 3);
	/* No data: no notice. */
	CHECK_EQUAL(OK(ob_sys_sendmsg(ends[0], &none, MSG_ZEROCOPY)), 0);
	send_tcp(ends, &small, 1, 4);
	close_both(ends);
}

static void test_tcp_bad_memory(void)
{
	char *border = client_border();
	struct iovec good = { data, 10 };
	int ends[2];

	connect_tcp(ends, 1001);
	CHECK_EQUAL(ob_sys_sendto(ends[0], border, 10, MSG_ZEROCOPY, NULL, 0), -1);
	CHECK_EQUAL(errno, EFAULT);
	CHECK_EQUAL(ob_sys_sendto(ends[0], NULL, 10, MSG_ZEROCOPY, NULL, 0), -1);
	CHECK_EQUAL(errno, EFAULT);
	/* Sends that failed have no notices, and no numbers. */
	send_tcp(ends, &good, 1, 0);
	close_both(ends);
}

/* Several sends before anything is read: notices of neighbours may be one. */
static void test_tcp_batch(void)
{
	struct iovec piece = { data, 1000 };
	struct mmsghdr batch[10];
	int ends[2];

	connect_tcp(ends, 1002);
	for (int i = 0; i < 10; i++)
		batch[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &piece, .msg_iovlen = 1 } };
	CHECK_EQUAL(OK(ob_sys_sendmmsg(ends[0], batch, 10, MSG_ZEROCOPY)), 10);
	receive_all(&(struct transfer){ ends[1], 10000 });
	for (int i = 0; i < 10; i++)
		CHECK(!memcmp(got + i * 1000, data, 1000));
	take_notices(ends[0], 0, 9);
	close_both(ends);
}

static void test_tcp_closed_and_epoll(void)
{
	struct epoll_event event = { .events = EPOLLET };
	int ends[2], epoll = (int)OK(ob_sys_epoll_create1(0));

	connect_tcp(ends, 1003);
	OK(ob_sys_epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event));
	CHECK_EQUAL(OK(ob_sys_sendto(ends[0], data, 5000, MSG_ZEROCOPY, NULL, 0)), 5000);
	CHECK_EQUAL(OK(ob_sys_epoll_wait(epoll, &event, 1, 60000)), 1);
	CHECK(event.events & EPOLLERR);
	take_notices(ends[0], 0, 0);
	/* The data of a socket that is closed arrive all the same. */
	CHECK_EQUAL(OK(ob_sys_sendto(ends[0], data + 5000, 5000, MSG_ZEROCOPY, NULL, 0)), 5000);
	OK(ob_sys_close(ends[0]));
	memset(data + 5000, 0, 5000);
	receive_all(&(struct transfer){ ends[1], 10000 });
	CHECK(!memcmp(got, data, 5000));
	CHECK(memcmp(got + 5000, data + 5000, 5000));
	OK(ob_sys_close(ends[1]));
	OK(ob_sys_close(epoll));
}

/* Packets of the connection that had data, each once. */
static unsigned int data_packets(int fd)
{
	struct tcp_info info;
	int size = sizeof(info);

	OK(ob_sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size));
	return info.tcpi_data_segs_out - info.tcpi_total_retrans;
}

/* A packet takes 17 pages, and each buffer has one of its own. */
static void test_tcp_many_buffers(void)
{
	struct iovec pieces[64];
	int ends[2];

	connect_tcp(ends, 1007);
	for (int i = 0; i < 64; i++)
		pieces[i] = (struct iovec){ data + 3 * i, 1 };
	send_tcp(ends, pieces, 18, 0);
	CHECK_EQUAL(data_packets(ends[0]), 2);
	send_tcp(ends, pieces, 64, 1);
	CHECK_EQUAL(data_packets(ends[0]), 2 + 4);
	/* Empty buffers have no page. */
	pieces[0].iov_len = pieces[5].iov_len = pieces[17].iov_len = 0;
	send_tcp(ends, pieces, 18, 2);
	CHECK_EQUAL(data_packets(ends[0]), 2 + 4 + 1);
	close_both(ends);
}

static void write_setting(const char *path, const char *value)
{
	int fd = (int)OK(ob_sys_open(path, O_WRONLY, 0));

	OK(ob_sys_write(fd, value, strlen(value)));
	OK(ob_sys_close(fd));
}

/* A notice needs memory of the socket. A send that failed has no number. */
static void test_tcp_refused(void)
{
	struct iovec piece = { data, 4000 };
	int ends[2], alone = make_socket(SOCK_STREAM);
	uint32_t first, last;

	CHECK_EQUAL(ob_sys_sendto(alone, data, 4000, MSG_ZEROCOPY, NULL, 0), -1);
	CHECK_EQUAL(errno, EPIPE);
	CHECK(!take_notice(alone, &first, &last));
	OK(ob_sys_close(alone));
	connect_tcp(ends, 1008);
	write_setting("/proc/sys/net/core/optmem_max", "0");
	CHECK_EQUAL(ob_sys_sendto(ends[0], data, 4000, MSG_ZEROCOPY, NULL, 0), -1);
	CHECK_EQUAL(errno, ENOBUFS);
	write_setting("/proc/sys/net/core/optmem_max", "131072");
	CHECK(!take_notice(ends[0], &first, &last));
	send_tcp(ends, &piece, 1, 0);
	close_both(ends);
}

/* The data come with the first packet. */
static void test_tcp_fast_open(void)
{
	struct sockaddr_in6 address = loopback(1009);
	int ends[2], listener = make_socket(SOCK_STREAM), waiting = 2;

	/* Both ends, without a cookie. */
	write_setting("/proc/sys/net/ipv4/tcp_fastopen", "519");
	OK(ob_sys_bind(listener, (struct sockaddr *)&address, sizeof(address)));
	OK(ob_sys_setsockopt(listener, IPPROTO_TCP, TCP_FASTOPEN, (char *)&waiting,
			     sizeof(waiting)));
	OK(ob_sys_listen(listener, 1));
	ends[0] = make_socket(SOCK_STREAM);
	CHECK_EQUAL(OK(ob_sys_sendto(ends[0], data, 1000, MSG_ZEROCOPY | MSG_FASTOPEN,
				     (struct sockaddr *)&address, sizeof(address))), 1000);
	ends[1] = (int)OK(ob_sys_accept(listener, NULL, NULL));
	receive_all(&(struct transfer){ ends[1], 1000 });
	CHECK(!memcmp(got, data, 1000));
	take_notices(ends[0], 0, 0);
	OK(ob_sys_close(listener));
	close_both(ends);
}

static void test_without_the_option(void)
{
	int fd = (int)OK(ob_sys_socket(AF_INET6, SOCK_DGRAM, 0));
	struct sockaddr_in6 address = loopback(1004);

	/* As on any Linux, the flag is ignored. */
	OK(ob_sys_connect(fd, (struct sockaddr *)&address, sizeof(address)));
	CHECK_EQUAL(OK(ob_sys_sendto(fd, data, 100, MSG_ZEROCOPY, NULL, 0)), 100);
	OK(ob_sys_close(fd));
}

static void send_udp(const int ends[2], const char *from, size_t size, uint32_t number)
{
	CHECK_EQUAL(OK(ob_sys_sendto(ends[0], (char *)from, size, MSG_ZEROCOPY, NULL, 0)), size);
	CHECK_EQUAL(OK(ob_sys_recvfrom(ends[1], got, SIZE, 0, NULL, NULL)), size);
	CHECK(!memcmp(got, from, size));
	take_notices(ends[0], number, number);
}

static void test_udp(char *window)
{
	int ends[2];

	connect_udp(ends, 1005);
	send_udp(ends, data, 1, 0);
	send_udp(ends, data + 1, 1400, 1);
	send_udp(ends, data + 77, 60000, 2);
	send_udp(ends, window, 5000, 3);
	CHECK_EQUAL(ob_sys_sendto(ends[0], client_border(), 10, MSG_ZEROCOPY, NULL, 0), -1);
	CHECK_EQUAL(errno, EFAULT);
	/* Two pieces of one datagram. */
	CHECK_EQUAL(OK(ob_sys_sendto(ends[0], data, 100, MSG_ZEROCOPY | MSG_MORE, NULL, 0)), 100);
	CHECK_EQUAL(OK(ob_sys_sendto(ends[0], data + 100, 50, MSG_ZEROCOPY, NULL, 0)), 50);
	CHECK_EQUAL(OK(ob_sys_recvfrom(ends[1], got, SIZE, 0, NULL, NULL)), 150);
	CHECK(!memcmp(got, data, 150));
	close_both(ends);
}

static void test_vmsplice(char *window)
{
	struct iovec pieces[] = { { data, 10 * KB }, { window, 5 * KB }, { data + 100, 1 } };
	struct iovec large = { data, SIZE }, bad = { client_border(), 10 };
	int ends[2];
	long done;

	OK(ob_sys_pipe2(ends, 0));
	CHECK_EQUAL(OK(ob_sys_vmsplice(ends[1], pieces, 3, 0)), 15 * KB + 1);
	CHECK_EQUAL(OK(ob_sys_read(ends[0], got, SIZE)), 15 * KB + 1);
	CHECK(!memcmp(got, data, 10 * KB));
	CHECK(!memcmp(got + 10 * KB, window, 5 * KB));
	CHECK_EQUAL(got[15 * KB], data[100]);
	/* What the pipe has room for; it does not wait for more. */
	done = OK(ob_sys_vmsplice(ends[1], &large, 1, 0));
	CHECK(done > 0 && done < SIZE);
	CHECK_EQUAL(ob_sys_vmsplice(ends[1], &large, 1, SPLICE_F_NONBLOCK), -1);
	CHECK_EQUAL(errno, EAGAIN);
	for (long at = 0; at < done;)
		at += OK(ob_sys_read(ends[0], got + at, (size_t)(done - at)));
	CHECK(!memcmp(got, data, (size_t)done));
	CHECK_EQUAL(ob_sys_vmsplice(ends[1], &bad, 1, 0), -1);
	CHECK_EQUAL(errno, EFAULT);
	close_both(ends);
}

/* From the program's memory by a pipe to a socket. */
static void test_splice_to_a_socket(void)
{
	struct iovec pieces[] = { { data, 10 * KB }, { data + 77, 1 }, { data + 5, 5 * KB } };
	const long size = 15 * KB + 1;
	int pipe[2], ends[2];

	connect_tcp(ends, 1010);
	OK(ob_sys_pipe2(pipe, 0));
	CHECK_EQUAL(OK(ob_sys_vmsplice(pipe[1], pieces, 3, 0)), size);
	for (long done = 0; done < size;)
		done += OK(ob_sys_splice(pipe[0], NULL, ends[0], NULL, (size_t)(size - done), 0));
	receive_all(&(struct transfer){ ends[1], size });
	CHECK(!memcmp(got, data, 10 * KB));
	CHECK_EQUAL(got[10 * KB], data[77]);
	CHECK(!memcmp(got + 10 * KB + 1, data + 5, 5 * KB));
	close_both(pipe);
	close_both(ends);
}

static void *map_ring(int ring, size_t size, uint64_t offset)
{
	void *at = ob_sys_mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, (off_t)offset);

	CHECK(at != MAP_FAILED);
	return at;
}

/* Its completion and, when the data have arrived, its notice. */
static void test_send_of_io_uring(void)
{
	struct io_uring_params parameters = { .flags = 0 };
	int ring = (int)OK(ob_sys_io_uring_setup(4, &parameters)), ends[2];
	char *rings = map_ring(ring, 64 * KB, IORING_OFF_SQ_RING);
	struct io_uring_sqe *entry = map_ring(ring, 4 * sizeof(*entry), IORING_OFF_SQES);
	const struct io_uring_cqe *done = (void *)(rings + parameters.cq_off.cqes);
	uint32_t *submitted = (void *)(rings + parameters.sq_off.tail);

	connect_tcp(ends, 1006);
	*entry = (struct io_uring_sqe){
		.opcode = IORING_OP_SEND_ZC, .fd = ends[0], .addr = (uint64_t)data, .len = 20000,
	};
	((uint32_t *)(rings + parameters.sq_off.array))[0] = 0;
	__atomic_store_n(submitted, 1, __ATOMIC_RELEASE);
	CHECK_EQUAL(OK(ob_sys_io_uring_enter(ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0)), 1);
	CHECK_EQUAL(done[0].res, 20000);
	CHECK(done[0].flags & IORING_CQE_F_MORE);
	receive_all(&(struct transfer){ ends[1], 20000 });
	CHECK(!memcmp(got, data, 20000));
	OK(ob_sys_io_uring_enter(ring, 0, 2, IORING_ENTER_GETEVENTS, NULL, 0));
	CHECK(done[1].flags & IORING_CQE_F_NOTIF);
	close_both(ends);
	OK(ob_sys_close(ring));
}

int main(void)
{
	char *window;

	client_boot(0);
	CHECK_EQUAL(ob_net_configure("lo", "up"), 0);
	if (ob_sys_mkdir("/proc", 0755) == 0 || ob_sys_access("/proc/self", F_OK))
		OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	window = ob_sys_mmap(NULL, 64 * KB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
	CHECK(window != MAP_FAILED);
	for (long i = 0; i < SIZE; i++)
		data[i] = (char)(i * 131 >> 7) + 1;
	memset(window, 'w', 64 * KB);
	test_tcp(window);
	test_tcp_bad_memory();
	test_tcp_batch();
	test_tcp_many_buffers();
	test_tcp_closed_and_epoll();
	test_tcp_refused();
	test_tcp_fast_open();
	test_without_the_option();
	test_udp(window);
	test_vmsplice(window);
	test_splice_to_a_socket();
	test_send_of_io_uring();
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
