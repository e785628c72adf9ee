// SPDX-License-Identifier: GPL-2.0-only
/* rtnetlink: see netlink.h. */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <outboard/outboard.h>

#include "netlink.h"

/* A request: the header, the message of the type, attributes. */
struct request {
	struct nlmsghdr header;
	union {
		struct ifinfomsg link;
		struct ifaddrmsg address;
		struct rtmsg route;
	} message;
	char attributes[256];
};

static void start(struct request *request, uint16_t type, uint16_t flags, size_t message_bytes)
{
	memset(request, 0, sizeof(*request));
	request->header.nlmsg_type = type;
	request->header.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	request->header.nlmsg_len = (uint32_t)NLMSG_LENGTH(message_bytes);
}

/* All requests of this file have few and short attributes: there is room for them. */
static void add(struct request *request, uint16_t type, const void *value, size_t bytes)
{
	size_t at = NLMSG_ALIGN(request->header.nlmsg_len);
	struct rtattr attribute = { .rta_len = (uint16_t)RTA_LENGTH(bytes), .rta_type = type };

	memcpy((char *)request + at, &attribute, sizeof(attribute));
	memcpy((char *)request + at + RTA_LENGTH(0), value, bytes);
	request->header.nlmsg_len = (uint32_t)(at + RTA_LENGTH(bytes));
}

static void add_u32(struct request *request, uint16_t type, uint32_t value)
{
	add(request, type, &value, sizeof(value));
}

static void add_address(struct request *request, uint16_t type,
			const struct ob_net_address *address)
{
	add(request, type, address->bytes, ob_net_address_bytes(address));
}

/* ---- the socket ------------------------------------------------------------ */

int ob_netlink_open(struct ob_netlink *netlink, struct ob_instance *instance, uint32_t groups)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = groups };
	int one = 1;
	long fd = ob_syscall_on(instance, SYS_socket, (long)AF_NETLINK,
				(long)(SOCK_RAW | SOCK_CLOEXEC), (long)NETLINK_ROUTE);

	netlink->instance = instance;
	netlink->fd = (int)fd;
	netlink->sequence = 0;
	netlink->reason[0] = '\0';
	if (fd < 0)
		return (int)fd;
	if (groups) {
		long error = ob_syscall_on(instance, SYS_bind, fd, &address, (long)sizeof(address));

		if (error)
			return (int)error;
	}
	/* Without these the errors have numbers only. */
	ob_syscall_on(instance, SYS_setsockopt, fd, (long)SOL_NETLINK, (long)NETLINK_EXT_ACK, &one,
		      (long)sizeof(one));
	ob_syscall_on(instance, SYS_setsockopt, fd, (long)SOL_NETLINK, (long)NETLINK_CAP_ACK, &one,
		      (long)sizeof(one));
	return 0;
}

void ob_netlink_close(struct ob_netlink *netlink)
{
	if (netlink->fd >= 0)
		ob_syscall_on(netlink->instance, SYS_close, (long)netlink->fd);
	netlink->fd = -1;
}

int ob_netlink_namespace(struct ob_netlink *netlink, uint64_t *number)
{
	int size = sizeof(*number);

	return (int)ob_syscall_on(netlink->instance, SYS_getsockopt, (long)netlink->fd,
				  (long)SOL_SOCKET, (long)SO_NETNS_COOKIE, number, &size);
}

int ob_netlink_wait(struct ob_netlink *netlink, unsigned int milliseconds)
{
	struct pollfd socket = { .fd = netlink->fd, .events = POLLIN };
	long ready = ob_syscall_on(netlink->instance, SYS_poll, &socket, 1L, (long)milliseconds);
	long length;

	if (ready <= 0)
		return ready ? (int)ready : -ETIMEDOUT;
	do {
		length = ob_syscall_on(netlink->instance, SYS_recvfrom, (long)netlink->fd,
				       netlink->buffer, (long)sizeof(netlink->buffer),
				       (long)MSG_DONTWAIT, NULL, NULL);
	} while (length >= 0);
	/* -ENOBUFS: reports were lost, which is a report, too. */
	return length == -EAGAIN || length == -ENOBUFS ? 0 : (int)length;
}

const char *ob_netlink_reason(const struct ob_netlink *netlink, int error)
{
	return netlink->reason[0] ? netlink->reason : strerror(-error);
}

static int send_request(struct ob_netlink *netlink, struct request *request)
{
	long sent;

	netlink->reason[0] = '\0';
	request->header.nlmsg_seq = ++netlink->sequence;
	sent = ob_syscall_on(netlink->instance, SYS_sendto, (long)netlink->fd, request,
			     (long)request->header.nlmsg_len, 0L, NULL, 0L);
	return sent < 0 ? (int)sent : 0;
}

/* Returns the bytes of the next datagram, or -errno. */
static long receive(struct ob_netlink *netlink)
{
	long length = ob_syscall_on(netlink->instance, SYS_recvfrom, (long)netlink->fd,
				    netlink->buffer, (long)sizeof(netlink->buffer), 0L, NULL, NULL);

	return length ? length : -EIO;
}

/* Linux's own words about an error are an attribute behind the error. */
static void keep_reason(struct ob_netlink *netlink, const struct nlmsghdr *message)
{
	size_t skipped = NLMSG_LENGTH(sizeof(struct nlmsgerr));
	const struct rtattr *attribute;
	long left;

	if (!(message->nlmsg_flags & NLM_F_ACK_TLVS) || message->nlmsg_len <= skipped)
		return;
	attribute = (const void *)((const char *)message + NLMSG_ALIGN(skipped));
	left = (long)message->nlmsg_len - (long)NLMSG_ALIGN(skipped);
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
		if (attribute->rta_type == NLMSGERR_ATTR_MSG)
			snprintf(netlink->reason, sizeof(netlink->reason), "%.*s",
				 (int)RTA_PAYLOAD(attribute), (const char *)RTA_DATA(attribute));
}

/* A message of the answer. `context` is the caller's. */
typedef void visit_message(void *context, const struct nlmsghdr *message);

/* 1: the answer is over; 0: more datagrams follow; -errno. */
static int read_datagram(struct ob_netlink *netlink, long length, visit_message *visit,
			 void *context)
{
	const struct nlmsghdr *message = (const void *)netlink->buffer;

	for (; NLMSG_OK(message, length); message = NLMSG_NEXT(message, length)) {
		const struct nlmsgerr *answer = NLMSG_DATA(message);

		if (message->nlmsg_seq != netlink->sequence)
			continue;
		if (message->nlmsg_type == NLMSG_DONE)
			return 1;
		if (message->nlmsg_type == NLMSG_ERROR) {
			if (message->nlmsg_len < NLMSG_LENGTH(sizeof(answer->error)))
				return -EIO;
			if (answer->error)
				keep_reason(netlink, message);
			return answer->error ? answer->error : 1;
		}
		if (visit)
			visit(context, message);
	}
	return 0;
}

/* Sends a request and waits for the end of the answer. */
static int ask(struct ob_netlink *netlink, struct request *request, visit_message *visit,
	       void *context)
{
	int result = send_request(netlink, request);

	while (!result) {
		long length = receive(netlink);

		if (length == -EINTR)
			continue;
		result = length < 0 ? (int)length : read_datagram(netlink, length, visit, context);
	}
	return result < 0 ? result : 0;
}

static int command(struct ob_netlink *netlink, struct request *request)
{
	request->header.nlmsg_flags |= NLM_F_ACK;
	return ask(netlink, request, NULL, NULL);
}

/* ---- links ------------------------------------------------------------------ */

static void start_link(struct request *request, uint16_t type, uint32_t index)
{
	start(request, type, 0, sizeof(request->message.link));
	request->message.link.ifi_family = AF_UNSPEC;
	request->message.link.ifi_index = (int)index;
}

/* The attribute of that type in another one, or NULL. */
static const struct rtattr *find_inside(const struct rtattr *outer, uint16_t type)
{
	const struct rtattr *attribute = RTA_DATA(outer);
	long left = (long)RTA_PAYLOAD(outer);

	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left))
		if ((attribute->rta_type & NLA_TYPE_MASK) == type)
			return attribute;
	return NULL;
}

/* A link without IPv6 has none. */
static uint32_t read_router_flags(const struct rtattr *families)
{
	const struct rtattr *ipv6 = find_inside(families, AF_INET6);
	const struct rtattr *attribute = ipv6 ? find_inside(ipv6, IFLA_INET6_FLAGS) : NULL;
	uint32_t flags = 0;

	if (attribute && RTA_PAYLOAD(attribute) == sizeof(flags))
		memcpy(&flags, RTA_DATA(attribute), sizeof(flags));
	return flags & (OB_ROUTER_MANAGED | OB_ROUTER_OTHER);
}

static void read_link(void *context, const struct nlmsghdr *message)
{
	const struct ifinfomsg *info = NLMSG_DATA(message);
	struct ob_link *link = context;
	const struct rtattr *attribute = IFLA_RTA(info);
	long left = (long)IFLA_PAYLOAD(message);

	if (message->nlmsg_type != RTM_NEWLINK)
		return;
	link->index = (uint32_t)info->ifi_index;
	link->flags = info->ifi_flags;
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		const void *value = RTA_DATA(attribute);
		size_t bytes = RTA_PAYLOAD(attribute);

		if (attribute->rta_type == IFLA_MTU && bytes == sizeof(link->mtu))
			memcpy(&link->mtu, value, bytes);
		if (attribute->rta_type == IFLA_IFNAME && bytes <= sizeof(link->name))
			memcpy(link->name, value, bytes);
		if (attribute->rta_type == IFLA_AF_SPEC)
			link->router_flags = read_router_flags(attribute);
		if (attribute->rta_type == IFLA_ADDRESS && bytes == sizeof(link->mac)) {
			memcpy(link->mac, value, bytes);
			link->has_mac = true;
		}
	}
}

int ob_netlink_link_get(struct ob_netlink *netlink, const char *name, struct ob_link *link)
{
	struct request request;

	memset(link, 0, sizeof(*link));
	start_link(&request, RTM_GETLINK, 0);
	add(&request, IFLA_IFNAME, name, strnlen(name, OB_NET_NAME_BYTES - 1) + 1);
	request.header.nlmsg_flags |= NLM_F_ACK;
	return ask(netlink, &request, read_link, link);
}

int ob_netlink_link_set_up(struct ob_netlink *netlink, uint32_t index, bool up)
{
	struct request request;

	start_link(&request, RTM_NEWLINK, index);
	request.message.link.ifi_flags = up ? IFF_UP : 0;
	request.message.link.ifi_change = IFF_UP;
	return command(netlink, &request);
}

int ob_netlink_link_set_mtu(struct ob_netlink *netlink, uint32_t index, uint32_t mtu)
{
	struct request request;

	start_link(&request, RTM_NEWLINK, index);
	add_u32(&request, IFLA_MTU, mtu);
	return command(netlink, &request);
}

int ob_netlink_link_set_name(struct ob_netlink *netlink, uint32_t index, const char *name)
{
	struct request request;

	start_link(&request, RTM_NEWLINK, index);
	add(&request, IFLA_IFNAME, name, strnlen(name, OB_NET_NAME_BYTES - 1) + 1);
	return command(netlink, &request);
}

int ob_netlink_link_set_mac(struct ob_netlink *netlink, uint32_t index, const uint8_t mac[6])
{
	struct request request;

	start_link(&request, RTM_NEWLINK, index);
	add(&request, IFLA_ADDRESS, mac, 6);
	return command(netlink, &request);
}

/* ---- addresses -------------------------------------------------------------- */

static void start_address(struct request *request, uint16_t type, uint16_t flags, uint32_t index,
			  const struct ob_net_address *address)
{
	start(request, type, flags, sizeof(request->message.address));
	request->message.address.ifa_family = address->family;
	request->message.address.ifa_prefixlen = address->prefix;
	request->message.address.ifa_index = index;
	add_address(request, IFA_LOCAL, address);
	add_address(request, IFA_ADDRESS, address);
}

/* IPv4: Linux sets no broadcast address by itself. */
static void add_broadcast(struct request *request, const struct ob_net_address *address)
{
	struct ob_net_address broadcast = *address;

	if (address->family != AF_INET || address->prefix > 30)
		return;
	for (unsigned int bit = address->prefix; bit < 32; bit++)
		broadcast.bytes[bit / 8] |= (uint8_t)(0x80 >> bit % 8);
	add_address(request, IFA_BROADCAST, &broadcast);
}

int ob_netlink_address_add(struct ob_netlink *netlink, uint32_t index,
			   const struct ob_net_address *address, uint32_t preferred,
			   uint32_t valid, bool replace)
{
	struct ifa_cacheinfo times = { .ifa_prefered = preferred, .ifa_valid = valid };
	uint16_t flags = (uint16_t)(NLM_F_CREATE | (replace ? NLM_F_REPLACE : NLM_F_EXCL));
	struct request request;

	start_address(&request, RTM_NEWADDR, flags, index, address);
	add_broadcast(&request, address);
	if (address->family == AF_INET6)
		add_u32(&request, IFA_FLAGS, IFA_F_NODAD);
	add(&request, IFA_CACHEINFO, &times, sizeof(times));
	return command(netlink, &request);
}

int ob_netlink_address_remove(struct ob_netlink *netlink, uint32_t index,
			      const struct ob_net_address *address)
{
	struct request request;

	start_address(&request, RTM_DELADDR, 0, index, address);
	return command(netlink, &request);
}

/* IFAPROT_KERNEL_RA, which older headers do not have. */
#define ORIGIN_ROUTER 2

struct address_list {
	uint32_t index;
	bool autoconfigured;
	struct ob_net_address *addresses;
	int most, count;
};

static void read_address(void *context, const struct nlmsghdr *message)
{
	const struct ifaddrmsg *info = NLMSG_DATA(message);
	struct address_list *list = context;
	struct ob_net_address found = { .family = info->ifa_family, .prefix = info->ifa_prefixlen };
	const struct rtattr *attribute = IFA_RTA(info);
	long left = (long)IFA_PAYLOAD(message);
	uint32_t flags = info->ifa_flags;
	uint8_t origin = 0;

	if (message->nlmsg_type != RTM_NEWADDR || info->ifa_index != list->index ||
	    list->count == list->most)
		return;
	for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
		if (attribute->rta_type == IFA_FLAGS && RTA_PAYLOAD(attribute) == sizeof(flags))
			memcpy(&flags, RTA_DATA(attribute), sizeof(flags));
		if (attribute->rta_type == IFA_PROTO && RTA_PAYLOAD(attribute) == sizeof(origin))
			memcpy(&origin, RTA_DATA(attribute), sizeof(origin));
		/* IPv4 has both, and the first is the interface's own. IPv6 may have the second. */
		if (attribute->rta_type == IFA_LOCAL ||
		    (attribute->rta_type == IFA_ADDRESS && info->ifa_family == AF_INET6))
			if (RTA_PAYLOAD(attribute) == ob_net_address_bytes(&found))
				memcpy(found.bytes, RTA_DATA(attribute), RTA_PAYLOAD(attribute));
	}
	if (list->autoconfigured && origin != ORIGIN_ROUTER)
		return;
	if (!(flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED)))
		list->addresses[list->count++] = found;
}

int ob_netlink_addresses(struct ob_netlink *netlink, uint32_t index, bool autoconfigured,
			 struct ob_net_address *addresses, int most)
{
	struct address_list list = {
		.index = index,
		.autoconfigured = autoconfigured,
		.addresses = addresses,
		.most = most,
	};
	struct request request;
	int error;

	start(&request, RTM_GETADDR, NLM_F_DUMP, sizeof(request.message.address));
	error = ask(netlink, &request, read_address, &list);
	return error ? error : list.count;
}

/* ---- routes ----------------------------------------------------------------- */

static void start_route(struct request *request, uint16_t type, uint16_t flags, uint32_t index,
			const struct ob_route *route)
{
	struct rtmsg *message = &request->message.route;

	start(request, type, flags, sizeof(*message));
	message->rtm_family = route->destination.family;
	message->rtm_dst_len = route->destination.prefix;
	message->rtm_table = RT_TABLE_MAIN;
	message->rtm_protocol = RTPROT_BOOT;
	message->rtm_type = RTN_UNICAST;
	message->rtm_scope = route->gateway.family ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
	message->rtm_flags = route->on_link ? RTNH_F_ONLINK : 0;
	if (route->destination.prefix)
		add_address(request, RTA_DST, &route->destination);
	if (route->gateway.family)
		add_address(request, RTA_GATEWAY, &route->gateway);
	if (route->source.family)
		add_address(request, RTA_PREFSRC, &route->source);
	if (route->metric)
		add_u32(request, RTA_PRIORITY, route->metric);
	add_u32(request, RTA_OIF, index);
}

int ob_netlink_route_add(struct ob_netlink *netlink, uint32_t index, const struct ob_route *route)
{
	struct request request;

	start_route(&request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, index, route);
	return command(netlink, &request);
}

int ob_netlink_route_remove(struct ob_netlink *netlink, uint32_t index,
			    const struct ob_route *route)
{
	struct request request;

	start_route(&request, RTM_DELROUTE, 0, index, route);
	return command(netlink, &request);
}
