/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A tap interface of the host in the place of the kernel, for back-ends that connect a kernel to
 * the world. Frames that the tap gives go to the back-end's transmit(); frames that the back-end
 * receives go to the tap. Links with net_port_tap.c, and the files that net_port.h names.
 */
#ifndef OUTBOARD_TESTS_NET_PORT_TAP_H
#define OUTBOARD_TESTS_NET_PORT_TAP_H

#include "net_port.h"

/* All frames go to this function, too. */
typedef void port_capture(void *context, bool outbound, const struct iovec *pieces, int count,
			  size_t length);

struct port_tap {
	struct ob_net_port port;
	int tap;			/* -1: none, received frames go nowhere */
	port_capture *capture;		/* may be NULL */
	void *capture_context;
};

/* Makes a tap interface of that name, without address. "-": none. */
void port_tap_init(struct port_tap *port, const char *tap);
void port_tap_free(struct port_tap *port);

/* Sends one frame, without a header, in three pieces. Returns transmit()'s result. */
int port_tap_send(struct port_tap *port, struct ob_net_backend *backend, unsigned char *frame,
		  size_t length);

/* Passes frames from the tap to the back-end until standard input ends. */
void port_tap_run(struct port_tap *port, struct ob_net_backend *backend);

#endif
