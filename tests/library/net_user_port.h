/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A network device for back-ends without a kernel: a tap interface of the host takes the kernel's
 * place. Frames that the tap gives go to the back-end's transmit(); frames that the back-end
 * receives go to the tap. Also the few hypercalls that back-ends use.
 */
#ifndef OUTBOARD_TESTS_NET_USER_PORT_H
#define OUTBOARD_TESTS_NET_USER_PORT_H

#include "net/backend.h"

/* Makes a tap interface of that name, without address. "-": none, received frames go nowhere. */
struct ob_net_port *port_new(const char *tap);
void port_free(struct ob_net_port *port);

/* All frames go to this function, too. */
typedef void port_capture(void *context, bool outbound, const struct iovec *pieces, int count,
			  size_t length);
void port_set_capture(struct ob_net_port *port, port_capture *capture, void *context);

/* Sends one frame, without a header, in three pieces. Returns transmit()'s result. */
int port_send(struct ob_net_port *port, struct ob_net_backend *backend, unsigned char *frame,
	      size_t length);

/* Passes frames from the tap to the back-end until standard input ends. */
void port_run(struct ob_net_port *port, struct ob_net_backend *backend);

/* The back-end finds no room for its next frames, until the port is opened again. */
void port_set_full(struct ob_net_port *port, bool is_full);

#endif
