// SPDX-License-Identifier: GPL-2.0-only
/* See net_port_tap.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "check.h"
#include "net_port_tap.h"

/* So that frames cross the border of two pieces. */
#define FIRST_PIECE 100

static void see(struct port_tap *port, bool outbound, const struct iovec *pieces, int count,
		size_t length)
{
	if (port->capture)
		port->capture(port->capture_context, outbound, pieces, count, length);
}

static void receive(void *context, unsigned int queue, const struct iovec *pieces, int count,
		    size_t length)
{
	static unsigned char frame[OB_NET_FRAME_MOST];
	struct port_tap *port = context;
	struct iovec whole = { frame, length };

	(void)count;
	CHECK_EQUAL(queue, 0);
	CHECK(length <= sizeof(frame) && length >= OB_NET_HEADER_BYTES + 14);
	port_copy(frame, pieces, 0, length);
	for (size_t i = 0; i < OB_NET_HEADER_BYTES; i++)
		CHECK_EQUAL(frame[i], 0);
	see(port, false, &whole, 1, length);
	/* The interface may be down; then the frame is lost. */
	if (port->tap >= 0 &&
	    write(port->tap, frame + OB_NET_HEADER_BYTES, length - OB_NET_HEADER_BYTES) < 0)
		CHECK(errno == EIO || errno == EINVAL);
}

void port_tap_init(struct port_tap *port, const char *tap)
{
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };

	memset(port, 0, sizeof(*port));
	port_init(&port->port, 256, 1536, receive, port);
	port->port.first_piece = FIRST_PIECE;
	port->tap = -1;
	if (!strcmp(tap, "-"))
		return;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", tap);
	port->tap = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	CHECK(port->tap >= 0);
	CHECK(ioctl(port->tap, TUNSETIFF, &request) == 0);
}

void port_tap_free(struct port_tap *port)
{
	if (port->tap >= 0)
		close(port->tap);
	port_free(&port->port);
}

int port_tap_send(struct port_tap *port, struct ob_net_backend *backend, unsigned char *frame,
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

void port_tap_run(struct port_tap *port, struct ob_net_backend *backend)
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
			port_tap_send(port, backend, frame, (size_t)length);
	}
}
