// SPDX-License-Identifier: GPL-2.0-only
/* See net_wireguard.h. */
#include <arpa/inet.h>
#include <linux/genetlink.h>
#include <linux/wireguard.h>
#include <netinet/in.h>
#include <string.h>

#include "client.h"
#include "net_links.h"
#include "net_message.h"
#include "net_wireguard.h"

static void begin(struct net_message *message, uint8_t command, uint16_t flags, const char *name)
{
	struct genlmsghdr head = { .cmd = command, .version = WG_GENL_VERSION };

	net_message_init(message);
	net_message_begin(message, net_message_family(WG_GENL_NAME), flags, &head, sizeof(head));
	net_message_add_text(message, WGDEVICE_A_IFNAME, name);
}

static void add_private_key(struct net_message *message, uint8_t node)
{
	uint8_t key[WG_KEY_LEN];

	memset(key, node, sizeof(key));
	net_message_add(message, WGDEVICE_A_PRIVATE_KEY, key, sizeof(key));
}

/* Linux computes the key: of an interface that is there for a moment. */
static void public_key(uint8_t node, uint8_t key[WG_KEY_LEN])
{
	struct net_message message;

	net_make_link("wireguard", "key");
	begin(&message, WG_CMD_SET_DEVICE, NLM_F_ACK, "key");
	add_private_key(&message, node);
	net_message_perform(&message, NETLINK_GENERIC);
	begin(&message, WG_CMD_GET_DEVICE, NLM_F_DUMP, "key");
	net_message_ask(&message, NETLINK_GENERIC, sizeof(struct genlmsghdr),
			WGDEVICE_A_PUBLIC_KEY, key, WG_KEY_LEN);
	net_delete_link("key");
}

static void add_any_address(struct net_message *message)
{
	struct in_addr any = { 0 };
	uint32_t list = net_message_nest(message, WGPEER_A_ALLOWEDIPS);
	uint32_t entry = net_message_nest(message, 0);
	uint16_t family = AF_INET;
	uint8_t bits = 0;

	net_message_add(message, WGALLOWEDIP_A_FAMILY, &family, sizeof(family));
	net_message_add(message, WGALLOWEDIP_A_IPADDR, &any, sizeof(any));
	net_message_add(message, WGALLOWEDIP_A_CIDR_MASK, &bits, sizeof(bits));
	net_message_end_nest(message, entry);
	net_message_end_nest(message, list);
}

void net_make_wireguard(const char *name, uint8_t own, uint8_t peer, uint16_t listen,
			const char *address, uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	uint8_t key[WG_KEY_LEN];
	struct net_message message;
	uint32_t peers, entry;

	CHECK_EQUAL(inet_pton(AF_INET, address, &at.sin_addr), 1);
	net_make_link("wireguard", name);
	public_key(peer, key);
	begin(&message, WG_CMD_SET_DEVICE, NLM_F_ACK, name);
	add_private_key(&message, own);
	net_message_add(&message, WGDEVICE_A_LISTEN_PORT, &listen, sizeof(listen));
	peers = net_message_nest(&message, WGDEVICE_A_PEERS);
	entry = net_message_nest(&message, 0);
	net_message_add(&message, WGPEER_A_PUBLIC_KEY, key, sizeof(key));
	net_message_add(&message, WGPEER_A_ENDPOINT, &at, sizeof(at));
	add_any_address(&message);
	net_message_end_nest(&message, entry);
	net_message_end_nest(&message, peers);
	net_message_perform(&message, NETLINK_GENERIC);
}
