/* SPDX-License-Identifier: GPL-2.0-only */
/* Receiving without offloads: one frame in one piece, without its header. */
#ifndef OUTBOARD_DEVICES_NET_DELIVER_H
#define OUTBOARD_DEVICES_NET_DELIVER_H

#include "backend.h"

#define OB_NET_ETHERNET_BYTES 14u
/* The largest frame without its header. */
#define OB_NET_ETHERNET_MOST (OB_NET_FRAME_MOST - OB_NET_HEADER_BYTES)

/*
 * Passes a frame to the kernel's first queue, and waits while the kernel has no room. Drops a frame
 * that an interface with that MTU does not receive. False: the interface is being closed.
 */
bool ob_net_deliver(struct ob_net_port *port, uint32_t mtu, const void *frame, size_t length);

#endif
