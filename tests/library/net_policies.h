/* SPDX-License-Identifier: GPL-2.0-only */
/* IPsec and nftables, for tests. Links with net_ipsec.c, net_nftables.c, net_message.c. */
#ifndef OUTBOARD_TESTS_NET_POLICIES_H
#define OUTBOARD_TESTS_NET_POLICIES_H

#include <stdint.h>

/*
 * Packets between two IPv4 addresses are encrypted, both ways, by keys that follow from the
 * addresses. Other packets between the two are dropped.
 */
void net_add_ipsec(const char *own, const char *peer);
/* Packets that were encrypted to that address, or decrypted there. */
uint64_t net_ipsec_packets(const char *to);

/* Drops TCP segments to one port, answers those to another one with a reset. */
void net_add_filter(uint16_t dropped, uint16_t rejected);

#endif
