// SPDX-License-Identifier: GPL-2.0-only
/* See net_message.h. */
#include <linux/genetlink.h>
#include <string.h>
#include <sys/socket.h>

#include "client.h"
#include "net_message.h"

void net_message_init(struct net_message *message)
{
	message->length = message->current = message->acknowledged = 0;
}

static struct nlmsghdr *header(struct net_message *message)
{
	return (void *)(message->bytes + message->current);
}

static void *append(struct net_message *message, size_t size)
{
	void *place = message->bytes + message->length;

	CHECK(NLMSG_ALIGN(size) <= sizeof(message->bytes) - message->length);
	memset(place, 0, NLMSG_ALIGN(size));
	message->length += (uint32_t)NLMSG_ALIGN(size);
	header(message)->nlmsg_len = message->length - message->current;
	return place;
}

void net_message_begin(struct net_message *message, uint16_t type, uint16_t flags,
		       const void *head, size_t size)
{
	message->current = message->length;
	append(message, sizeof(struct nlmsghdr));
	header(message)->nlmsg_type = type;
	header(message)->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	net_message_add_head(message, head, size);
	message->acknowledged += !!(flags & NLM_F_ACK);
}

void net_message_add_head(struct net_message *message, const void *head, size_t size)
{
	memcpy(append(message, size), head, size);
}

void net_message_add(struct net_message *message, uint16_t type, const void *value, size_t size)
{
	struct nlattr *attribute = append(message, NLA_HDRLEN + size);

	attribute->nla_type = type;
	attribute->nla_len = (uint16_t)(NLA_HDRLEN + size);
	if (size)
		memcpy((char *)attribute + NLA_HDRLEN, value, size);
}

void net_message_add_u32(struct net_message *message, uint16_t type, uint32_t value)
{
	net_message_add(message, type, &value, sizeof(value));
}

void net_message_add_text(struct net_message *message, uint16_t type, const char *text)
{
	net_message_add(message, type, text, strlen(text) + 1);
}

uint32_t net_message_nest(struct net_message *message, uint16_t type)
{
	uint32_t nest = message->length;

	net_message_add(message, type | NLA_F_NESTED, NULL, 0);
	return nest;
}

void net_message_end_nest(struct net_message *message, uint32_t nest)
{
	struct nlattr *attribute = (void *)(message->bytes + nest);

	attribute->nla_len = (uint16_t)(message->length - nest);
}

static int send_message(struct net_message *message, int protocol)
{
	int fd = (int)OK(ob_sys_socket(AF_NETLINK, SOCK_RAW, protocol));

	OK(ob_sys_sendto(fd, message->bytes, message->length, 0, NULL, 0));
	return fd;
}

/* The answers of one datagram. */
static void check_answers(const struct nlmsghdr *answer, long left, uint32_t *acknowledged)
{
	for (; NLMSG_OK(answer, left); answer = NLMSG_NEXT(answer, left)) {
		const struct nlmsgerr *error = NLMSG_DATA(answer);

		CHECK_EQUAL(answer->nlmsg_type, NLMSG_ERROR);
		CHECK_EQUAL(error->error, 0);
		++*acknowledged;
	}
}

void net_message_perform(struct net_message *message, int protocol)
{
	char answers[4096] __attribute__((aligned(NLMSG_ALIGNTO)));
	int fd = send_message(message, protocol);
	uint32_t acknowledged = 0;

	while (acknowledged < message->acknowledged)
		check_answers((void *)answers,
			      OK(ob_sys_recvfrom(fd, answers, sizeof(answers), 0, NULL, NULL)),
			      &acknowledged);
	OK(ob_sys_close(fd));
}

void net_message_ask(struct net_message *message, int protocol, size_t head, uint16_t type,
		     void *value, size_t size)
{
	char bytes[8192] __attribute__((aligned(NLMSG_ALIGNTO)));
	int fd = send_message(message, protocol);
	long length = OK(ob_sys_recvfrom(fd, bytes, sizeof(bytes), 0, NULL, NULL));
	const struct nlmsghdr *answer = (void *)bytes;
	uint32_t at = (uint32_t)NLMSG_LENGTH(head);

	OK(ob_sys_close(fd));
	CHECK(NLMSG_OK(answer, length));
	CHECK(answer->nlmsg_type != NLMSG_ERROR);
	while (at < answer->nlmsg_len) {
		const struct nlattr *attribute = (void *)(bytes + at);

		if ((attribute->nla_type & NLA_TYPE_MASK) == type) {
			CHECK_EQUAL(attribute->nla_len, NLA_HDRLEN + size);
			memcpy(value, (const char *)attribute + NLA_HDRLEN, size);
			return;
		}
		at += NLA_ALIGN(attribute->nla_len);
	}
	CHECK(!"the attribute is there");
}

uint16_t net_message_family(const char *name)
{
	struct genlmsghdr head = { .cmd = CTRL_CMD_GETFAMILY, .version = 1 };
	struct net_message message;
	uint16_t number;

	net_message_init(&message);
	net_message_begin(&message, GENL_ID_CTRL, 0, &head, sizeof(head));
	net_message_add_text(&message, CTRL_ATTR_FAMILY_NAME, name);
	net_message_ask(&message, NETLINK_GENERIC, sizeof(head), CTRL_ATTR_FAMILY_ID, &number,
			sizeof(number));
	return number;
}
