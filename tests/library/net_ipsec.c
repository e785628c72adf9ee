// SPDX-License-Identifier: GPL-2.0-only
/* See net_policies.h: ESP in transport mode, AES-GCM. */
#include <arpa/inet.h>
#include <linux/xfrm.h>
#include <string.h>
#include <sys/socket.h>

#include "client.h"
#include "net_message.h"
#include "net_policies.h"

#define KEY_BYTES 20	/* AES-128 and the salt */

static const struct xfrm_lifetime_cfg no_limit = {
	.soft_byte_limit = XFRM_INF, .hard_byte_limit = XFRM_INF,
	.soft_packet_limit = XFRM_INF, .hard_packet_limit = XFRM_INF,
};

static xfrm_address_t address_of(const char *text)
{
	xfrm_address_t address = { 0 };

	CHECK_EQUAL(inet_pton(AF_INET, text, &address.a4), 1);
	return address;
}

static void add_state(const char *from, const char *to)
{
	struct xfrm_usersa_info state = {
		.id = { .daddr = address_of(to), .proto = IPPROTO_ESP },
		.saddr = address_of(from), .lft = no_limit, .family = AF_INET,
		.mode = XFRM_MODE_TRANSPORT, .reqid = 1, .replay_window = 32,
	};
	char algorithm[sizeof(struct xfrm_algo_aead) + KEY_BYTES];
	struct xfrm_algo_aead head = { .alg_name = "rfc4106(gcm(aes))",
				       .alg_key_len = KEY_BYTES * 8, .alg_icv_len = 128 };
	struct net_message message;

	/* Each direction has its number and its key, which follow from the receiver. */
	state.id.spi = state.id.daddr.a4;
	memcpy(algorithm, &head, sizeof(head));
	memset(algorithm + sizeof(head), (int)(ntohl(state.id.spi) & 0xff), KEY_BYTES);
	net_message_init(&message);
	net_message_begin(&message, XFRM_MSG_NEWSA, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &state,
			  sizeof(state));
	net_message_add(&message, XFRMA_ALG_AEAD, algorithm, sizeof(algorithm));
	net_message_perform(&message, NETLINK_XFRM);
}

static void add_policy(const char *from, const char *to, uint8_t direction)
{
	struct xfrm_userpolicy_info policy = {
		.sel = { .saddr = address_of(from), .daddr = address_of(to), .family = AF_INET,
			 .prefixlen_s = 32, .prefixlen_d = 32 },
		.lft = no_limit, .dir = direction, .action = XFRM_POLICY_ALLOW,
	};
	struct xfrm_user_tmpl template = {
		.id = { .daddr = address_of(to), .proto = IPPROTO_ESP },
		.saddr = address_of(from), .family = AF_INET, .reqid = 1,
		.mode = XFRM_MODE_TRANSPORT, .aalgos = ~0u, .ealgos = ~0u, .calgos = ~0u,
	};
	struct net_message message;

	net_message_init(&message);
	net_message_begin(&message, XFRM_MSG_NEWPOLICY, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
			  &policy, sizeof(policy));
	net_message_add(&message, XFRMA_TMPL, &template, sizeof(template));
	net_message_perform(&message, NETLINK_XFRM);
}

void net_add_ipsec(const char *own, const char *peer)
{
	add_state(own, peer);
	add_state(peer, own);
	add_policy(own, peer, XFRM_POLICY_OUT);
	add_policy(peer, own, XFRM_POLICY_IN);
}

uint64_t net_ipsec_packets(const char *to)
{
	struct xfrm_usersa_id id = { .daddr = address_of(to), .family = AF_INET,
				     .proto = IPPROTO_ESP };
	struct xfrm_lifetime_cur used;
	struct net_message message;

	id.spi = id.daddr.a4;
	net_message_init(&message);
	net_message_begin(&message, XFRM_MSG_GETAE, 0,
			  &(struct xfrm_aevent_id){ .sa_id = id },
			  sizeof(struct xfrm_aevent_id));
	net_message_ask(&message, NETLINK_XFRM, sizeof(struct xfrm_aevent_id), XFRMA_LTIME_VAL,
			&used, sizeof(used));
	return used.packets;
}
