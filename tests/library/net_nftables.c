// SPDX-License-Identifier: GPL-2.0-only
/* See net_policies.h: a table of nftables with one chain for incoming packets. */
#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "client.h"
#include "net_message.h"
#include "net_policies.h"

#define TABLE "test"
#define CHAIN "input"

static void begin_batch(struct net_message *message, uint16_t type)
{
	struct nfgenmsg head = { .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	net_message_begin(message, type, 0, &head, sizeof(head));
}

static void begin(struct net_message *message, uint16_t type, uint16_t flags)
{
	struct nfgenmsg head = { .nfgen_family = NFPROTO_IPV4 };

	net_message_begin(message, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type),
			  NLM_F_ACK | NLM_F_CREATE | flags, &head, sizeof(head));
}

/* Numbers of nftables are big-endian. */
static void add_number(struct net_message *message, uint16_t type, uint32_t number)
{
	net_message_add_u32(message, type, htonl(number));
}

static void add_table_and_chain(struct net_message *message)
{
	uint32_t hook;

	begin(message, NFT_MSG_NEWTABLE, 0);
	net_message_add_text(message, NFTA_TABLE_NAME, TABLE);
	begin(message, NFT_MSG_NEWCHAIN, 0);
	net_message_add_text(message, NFTA_CHAIN_TABLE, TABLE);
	net_message_add_text(message, NFTA_CHAIN_NAME, CHAIN);
	hook = net_message_nest(message, NFTA_CHAIN_HOOK);
	add_number(message, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_IN);
	add_number(message, NFTA_HOOK_PRIORITY, 0);
	net_message_end_nest(message, hook);
	add_number(message, NFTA_CHAIN_POLICY, NF_ACCEPT);
	net_message_add_text(message, NFTA_CHAIN_TYPE, "filter");
}

/* ---- rules ------------------------------------------------------------------------- */

struct expression {
	uint32_t element, data;
};

static struct expression begin_expression(struct net_message *message, const char *name)
{
	struct expression expression;

	expression.element = net_message_nest(message, NFTA_LIST_ELEM);
	net_message_add_text(message, NFTA_EXPR_NAME, name);
	expression.data = net_message_nest(message, NFTA_EXPR_DATA);
	return expression;
}

static void end_expression(struct net_message *message, struct expression expression)
{
	net_message_end_nest(message, expression.data);
	net_message_end_nest(message, expression.element);
}

static void load_protocol(struct net_message *message)
{
	struct expression expression = begin_expression(message, "meta");

	add_number(message, NFTA_META_DREG, NFT_REG_1);
	add_number(message, NFTA_META_KEY, NFT_META_L4PROTO);
	end_expression(message, expression);
}

static void load_port(struct net_message *message)
{
	struct expression expression = begin_expression(message, "payload");

	add_number(message, NFTA_PAYLOAD_DREG, NFT_REG_1);
	add_number(message, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
	add_number(message, NFTA_PAYLOAD_OFFSET, 2);
	add_number(message, NFTA_PAYLOAD_LEN, 2);
	end_expression(message, expression);
}

static void compare(struct net_message *message, const void *value, size_t size)
{
	struct expression expression = begin_expression(message, "cmp");
	uint32_t data;

	add_number(message, NFTA_CMP_SREG, NFT_REG_1);
	add_number(message, NFTA_CMP_OP, NFT_CMP_EQ);
	data = net_message_nest(message, NFTA_CMP_DATA);
	net_message_add(message, NFTA_DATA_VALUE, value, size);
	net_message_end_nest(message, data);
	end_expression(message, expression);
}

static void drop(struct net_message *message)
{
	struct expression expression = begin_expression(message, "immediate");
	uint32_t data, verdict;

	add_number(message, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = net_message_nest(message, NFTA_IMMEDIATE_DATA);
	verdict = net_message_nest(message, NFTA_DATA_VERDICT);
	add_number(message, NFTA_VERDICT_CODE, NF_DROP);
	net_message_end_nest(message, verdict);
	net_message_end_nest(message, data);
	end_expression(message, expression);
}

static void reject(struct net_message *message)
{
	struct expression expression = begin_expression(message, "reject");
	uint8_t code = 0;

	add_number(message, NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
	net_message_add(message, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
	end_expression(message, expression);
}

static void add_rule(struct net_message *message, uint16_t port,
		     void (*act)(struct net_message *message))
{
	uint8_t protocol = IPPROTO_TCP;
	uint16_t wire_port = htons(port);
	uint32_t list;

	begin(message, NFT_MSG_NEWRULE, NLM_F_APPEND);
	net_message_add_text(message, NFTA_RULE_TABLE, TABLE);
	net_message_add_text(message, NFTA_RULE_CHAIN, CHAIN);
	list = net_message_nest(message, NFTA_RULE_EXPRESSIONS);
	load_protocol(message);
	compare(message, &protocol, sizeof(protocol));
	load_port(message);
	compare(message, &wire_port, sizeof(wire_port));
	act(message);
	net_message_end_nest(message, list);
}

void net_add_filter(uint16_t dropped, uint16_t rejected)
{
	struct net_message message;

	net_message_init(&message);
	begin_batch(&message, NFNL_MSG_BATCH_BEGIN);
	add_table_and_chain(&message);
	add_rule(&message, dropped, drop);
	add_rule(&message, rejected, reject);
	begin_batch(&message, NFNL_MSG_BATCH_END);
	net_message_perform(&message, NETLINK_NETFILTER);
}
