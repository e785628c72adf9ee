/* SPDX-License-Identifier: GPL-2.0-only */
/* Requests by netlink, for tests of the network. Links with net_message.c and client.c. */
#ifndef OUTBOARD_TESTS_NET_MESSAGE_H
#define OUTBOARD_TESTS_NET_MESSAGE_H

#include <linux/netlink.h>
#include <stddef.h>
#include <stdint.h>

/* One or more messages of one datagram. */
struct net_message {
	uint32_t length, current, acknowledged;
	char bytes[4096] __attribute__((aligned(NLMSG_ALIGNTO)));
};

void net_message_init(struct net_message *message);
/* Begins the next message. `head` is its fixed part. Linux answers if the flags have NLM_F_ACK. */
void net_message_begin(struct net_message *message, uint16_t type, uint16_t flags,
		       const void *head, size_t size);
void net_message_add(struct net_message *message, uint16_t type, const void *value, size_t size);
void net_message_add_u32(struct net_message *message, uint16_t type, uint32_t value);
void net_message_add_text(struct net_message *message, uint16_t type, const char *text);
/* Bytes without an attribute around them. */
void net_message_add_head(struct net_message *message, const void *head, size_t size);
/* Returns where the nest is, for net_message_end_nest(). */
uint32_t net_message_nest(struct net_message *message, uint16_t type);
void net_message_end_nest(struct net_message *message, uint32_t nest);

/* Sends the datagram. Each message that wants an answer must succeed. */
void net_message_perform(struct net_message *message, int protocol);
/* Sends a request. Copies the value of the first attribute of that type in the first answer. */
void net_message_ask(struct net_message *message, int protocol, size_t head, uint16_t type,
		     void *value, size_t size);
/* The number of a family of generic netlink. */
uint16_t net_message_family(const char *name);

#endif
