/* SPDX-License-Identifier: GPL-2.0-only */
/* WireGuard interfaces of tests. Links with net_wireguard.c, net_links.c, net_message.c. */
#ifndef OUTBOARD_TESTS_NET_WIREGUARD_H
#define OUTBOARD_TESTS_NET_WIREGUARD_H

#include <stdint.h>

/*
 * Makes the interface of node `own`. Its key follows from this number, and so does the key of its
 * one peer, node `peer`. The peer is at an IPv4 address and port, and may have any address behind
 * the tunnel.
 */
void net_make_wireguard(const char *name, uint8_t own, uint8_t peer, uint16_t listen,
			const char *address, uint16_t port);

#endif
