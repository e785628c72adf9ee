// SPDX-License-Identifier: GPL-2.0-only
/* A tap interface in the place of the kernel, and threads in the place of the platform's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "internal.h"
#include "net_user_port.h"

/* The first piece of a receive buffer, so that frames cross the border of two pieces. */
#define FIRST_PIECE 100

struct ob_net_port {
	int tap;
	port_capture *capture;
	void *capture_context;
	bool is_full, is_stopped;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	unsigned char room[OB_NET_FRAME_MOST];
};

struct ob_net_port *port_new(const char *tap)
{
	struct ob_net_port *port = calloc(1, sizeof(*port));
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };

	CHECK(port);
	port->tap = -1;
	pthread_mutex_init(&port->mutex, NULL);
	pthread_cond_init(&port->changed, NULL);
	if (!strcmp(tap, "-"))
		return port;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", tap);
	port->tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	CHECK(port->tap >= 0);
	CHECK(ioctl(port->tap, TUNSETIFF, &request) == 0);
	return port;
}

void port_free(struct ob_net_port *port)
{
	if (port->tap >= 0)
		close(port->tap);
	free(port);
}

void port_set_capture(struct ob_net_port *port, port_capture *capture, void *context)
{
	port->capture = capture;
	port->capture_context = context;
}

static void change(struct ob_net_port *port, bool *what, bool value)
{
	pthread_mutex_lock(&port->mutex);
	*what = value;
	pthread_cond_broadcast(&port->changed);
	pthread_mutex_unlock(&port->mutex);
}

void port_set_full(struct ob_net_port *port, bool is_full)
{
	change(port, &port->is_full, is_full);
}

static void see(struct ob_net_port *port, bool outbound, const struct iovec *pieces, int count,
		size_t length)
{
	if (port->capture)
		port->capture(port->capture_context, outbound, pieces, count, length);
}

int port_send(struct ob_net_port *port, struct ob_net_backend *backend, unsigned char *frame,
	      size_t length)
{
	unsigned char header[OB_NET_HEADER_BYTES] = { 0 };
	struct iovec pieces[] = {
		{ header, sizeof(header) }, { frame, 14 }, { frame + 14, length - 14 },
	};
	int result;

	see(port, true, pieces, 3, sizeof(header) + length);
	result = backend->operations->transmit(backend, 0, pieces, 3);
	if (backend->operations->transmit_end)
		backend->operations->transmit_end(backend, 0);
	return result;
}

void port_run(struct ob_net_port *port, struct ob_net_backend *backend)
{
	static unsigned char frame[OB_NET_FRAME_MOST];
	struct pollfd fds[] = { { port->tap, POLLIN, 0 }, { 0, POLLIN, 0 } };

	for (;;) {
		ssize_t length;

		CHECK(poll(fds, 2, -1) > 0);
		if (fds[1].revents)
			return;
		length = read(port->tap, frame, sizeof(frame));
		if (length >= 14)
			port_send(port, backend, frame, (size_t)length);
	}
}

/* ---- the device ----------------------------------------------------------- */

int ob_net_receive_begin(struct ob_net_port *port, unsigned int queue, size_t size,
			 struct iovec pieces[OB_NET_PIECES_MOST])
{
	bool is_full;

	CHECK_EQUAL(queue, 0);
	CHECK(size <= sizeof(port->room));
	pthread_mutex_lock(&port->mutex);
	is_full = port->is_full;
	pthread_mutex_unlock(&port->mutex);
	if (is_full)
		return 0;
	pieces[0] = (struct iovec){ port->room, FIRST_PIECE };
	pieces[1] = (struct iovec){ port->room + FIRST_PIECE, sizeof(port->room) - FIRST_PIECE };
	return 2;
}

void ob_net_receive_end(struct ob_net_port *port, unsigned int queue, size_t length)
{
	struct iovec piece = { port->room, length };

	CHECK_EQUAL(queue, 0);
	if (!length)
		return;
	CHECK(length <= sizeof(port->room) && length >= OB_NET_HEADER_BYTES + 14);
	for (size_t i = 0; i < OB_NET_HEADER_BYTES; i++)
		CHECK_EQUAL(port->room[i], 0);
	see(port, false, &piece, 1, length);
	/* The interface may be down; then the frame is lost. */
	if (port->tap >= 0 && write(port->tap, port->room + OB_NET_HEADER_BYTES,
				    length - OB_NET_HEADER_BYTES) < 0)
		CHECK(errno == EIO || errno == EINVAL);
}

size_t ob_net_frame_most(const struct ob_net_port *port)
{
	return sizeof(port->room);
}

void ob_net_receive_flush(struct ob_net_port *port, unsigned int queue)
{
	(void)port;
	CHECK_EQUAL(queue, 0);
}

int ob_net_receive(struct ob_net_port *port, unsigned int queue, const struct iovec *pieces,
		   int count)
{
	struct iovec room[OB_NET_PIECES_MOST];
	size_t length = 0;

	if (!ob_net_receive_begin(port, queue, OB_NET_FRAME_MOST, room))
		return -ENOBUFS;
	for (int i = 0; i < count; i++) {
		CHECK(pieces[i].iov_len <= sizeof(port->room) - length);
		memcpy(port->room + length, pieces[i].iov_base, pieces[i].iov_len);
		length += pieces[i].iov_len;
	}
	ob_net_receive_end(port, queue, length);
	return 0;
}

bool ob_net_receive_wait(struct ob_net_port *port, unsigned int queue, size_t size)
{
	bool is_stopped;

	CHECK_EQUAL(queue, 0);
	CHECK(size <= OB_NET_FRAME_MOST);
	pthread_mutex_lock(&port->mutex);
	while (port->is_full && !port->is_stopped)
		pthread_cond_wait(&port->changed, &port->mutex);
	is_stopped = port->is_stopped;
	pthread_mutex_unlock(&port->mutex);
	return !is_stopped;
}

void ob_net_port_stop(struct ob_net_port *port)
{
	change(port, &port->is_stopped, true);
}

void ob_net_port_link(struct ob_net_port *port, bool is_up)
{
	(void)port;
	printf("link %s\n", is_up ? "up" : "down");
	fflush(stdout);
}

/* ---- hypercalls ----------------------------------------------------------- */

struct start {
	void (*fn)(void *arg);
	void *arg;
};

static void *run_thread(void *pointer)
{
	struct start start = *(struct start *)pointer;
	sigset_t blocked;

	free(pointer);
	/* As on the platform: a broken pipe ends no program. */
	sigfillset(&blocked);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	start.fn(start.arg);
	return NULL;
}

int ob_host_thread_create(struct ob_host *host, void (*fn)(void *arg), void *arg, const char *name,
			  uint64_t *thread)
{
	struct start *start = malloc(sizeof(*start));
	pthread_t new;

	(void)host;
	CHECK(start && strlen(name) < 16);
	*start = (struct start){ fn, arg };
	CHECK(pthread_create(&new, NULL, run_thread, start) == 0);
	*thread = (uint64_t)new;
	return 0;
}

void ob_host_thread_join(struct ob_host *host, uint64_t thread)
{
	(void)host;
	CHECK(pthread_join((pthread_t)thread, NULL) == 0);
}

void ob_host_wait(struct ob_host *host, const uint32_t *word, uint32_t value, uint64_t timeout)
{
	struct timespec relative = { (time_t)(timeout / 1000000000u),
				     (long)(timeout % 1000000000u) };

	(void)host;
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value,
		timeout == OB_FOREVER ? NULL : &relative, NULL, 0);
}

uint32_t ob_host_wake(struct ob_host *host, const uint32_t *word, uint32_t count)
{
	(void)host;
	return (uint32_t)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

void ob_host_console_write(struct ob_host *host, int level, const char *line, uint64_t length)
{
	(void)host;
	CHECK(level >= 0 && level < 8 && !memchr(line, '\n', length));
	printf("log %.*s\n", (int)length, line);
	fflush(stdout);
}
