/* SPDX-License-Identifier: GPL-2.0-only */
/* An interface can be configured with every reply that the parsers of DHCP accept. */
#ifndef OUTBOARD_TESTS_DHCP_SANE_H
#define OUTBOARD_TESTS_DHCP_SANE_H

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>

#include "check.h"
#include "dhcp6_message.h"
#include "dhcp_message.h"

static inline void check_sane_reply(const struct ob_dhcp_reply *reply)
{
	if (reply->type == OB_DHCP_NAK)
		return;
	CHECK(reply->type == OB_DHCP_ACK || reply->type == OB_DHCP_OFFER);
	CHECK(reply->address.family == AF_INET && reply->address.prefix >= 1 &&
	      reply->address.prefix <= 32 && ob_net_address_is_of_host(&reply->address));
	CHECK(reply->lease && reply->renew && reply->renew <= reply->rebind);
	CHECK(reply->rebind == OB_NEVER || reply->rebind <= reply->lease * 1000ull);
	CHECK(!reply->mtu || (reply->mtu >= 1280 && reply->mtu <= 65535));
	CHECK(reply->servers.count >= 0 && reply->servers.count <= OB_NET_SERVERS_MOST);
	CHECK(reply->route_count >= 0 && reply->route_count <= OB_DHCP_ROUTES_MOST);
	for (int i = 0; i < reply->route_count; i++) {
		const struct ob_net_address *to = &reply->routes[i].destination;
		uint32_t value;

		memcpy(&value, to->bytes, 4);
		CHECK(to->prefix <= 32);
		CHECK(to->prefix == 32 || !(ntohl(value) << to->prefix));
	}
}

static inline bool is_mapped(const struct ob_net_address *address)
{
	static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

	return !memcmp(address->bytes, mapped, sizeof(mapped));
}

static inline void check_sane_reply6(const struct ob_dhcp6_reply *reply)
{
	CHECK(reply->type == OB_DHCP6_ADVERTISE || reply->type == OB_DHCP6_REPLY);
	CHECK(reply->server.size >= 3 && reply->server.size <= OB_DHCP6_DUID_MOST);
	CHECK(reply->refresh >= 600000);
	CHECK(reply->servers.count >= 0 && reply->servers.count <= OB_NET_SERVERS_MOST);
	for (int i = 0; i < reply->servers.count; i++)
		CHECK(ob_net_address_is_of_host(&reply->servers.list[i]));
	if (!reply->address.family)
		return;
	CHECK(reply->has_association && reply->address.prefix == 128);
	CHECK(ob_net_address_is_of_host(&reply->address) && !is_mapped(&reply->address));
	CHECK(reply->valid && reply->preferred <= reply->valid);
	CHECK(reply->renew && reply->renew <= reply->rebind);
	CHECK(reply->valid == OB_DHCP6_INFINITE || reply->rebind <= reply->valid * 1000ull);
}

#endif
