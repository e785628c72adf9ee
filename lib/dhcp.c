// SPDX-License-Identifier: GPL-2.0-only
/*
 * A DHCPv4 client (RFC 2131).
 *
 *   state      sends                      to            until             then
 *   INIT       DISCOVER                   everybody     OFFER             REQUESTING
 *   REQUESTING REQUEST                    everybody     ACK               BOUND
 *                                                       NAK, four tries   INIT
 *   BOUND      nothing                                  renewal time      RENEWING
 *   RENEWING   REQUEST                    the server    ACK               BOUND
 *                                                       NAK               INIT, without address
 *                                                       rebinding time    REBINDING
 *   REBINDING  REQUEST                    everybody     ACK               BOUND
 *                                                       NAK, end of lease INIT, without address
 *
 * INIT and REQUESTING use a packet socket, since the interface has no address yet. RENEWING and
 * REBINDING use a UDP socket. lease.c has the thread, and the times of tries.
 *
 * The kernel itself removes an address whose lease ends, even if the thread cannot run.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "clock.h"
#include "dhcp.h"
#include "dhcp_message.h"
#include "instance.h"
#include "lease.h"

#define PORT_SERVER 67
#define PORT_CLIENT 68

#define REQUEST_TRIES 4

/* Routes of leases yield to static ones, and to those of interfaces that came before. */
#define FIRST_METRIC 1024

struct ob_dhcp {
	struct ob_lease_client base;
	bool fixed_mtu;
	uint32_t transaction;
	uint64_t began;			/* milliseconds, as all times here */
	struct ob_dhcp_reply lease;
	uint8_t buffer[2048];		/* replies: the client announces 1500 bytes at most */
};

/* ---- sockets ------------------------------------------------------------------ */

/* IPv4, UDP, not a later fragment, to the client's port. */
static int attach_filter(struct ob_dhcp *client)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 9),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 17, 0, 6),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 6),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 4, 0),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PORT_CLIENT, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0xffff),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return (int)ob_syscall_on(client->base.instance, SYS_setsockopt,
				  (long)client->base.packet, (long)SOL_SOCKET,
				  (long)SO_ATTACH_FILTER, &program, (long)sizeof(program));
}

static int open_packet_socket(struct ob_dhcp *client)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_IP),
		.sll_ifindex = (int)client->base.link.index,
	};
	int error;

	/* Protocol 0: nothing arrives before the filter is there. */
	client->base.packet = (int)ob_syscall_on(client->base.instance, SYS_socket, (long)AF_PACKET,
						 (long)(SOCK_DGRAM | SOCK_CLOEXEC), 0L);
	if (client->base.packet < 0)
		return client->base.packet;
	error = attach_filter(client);
	if (!error)
		error = (int)ob_lease_set_option(&client->base, client->base.packet, SOL_PACKET,
						 PACKET_AUXDATA, 1);
	if (!error)
		error = (int)ob_syscall_on(client->base.instance, SYS_bind,
					   (long)client->base.packet, &address,
					   (long)sizeof(address));
	return error;
}

static int open_sockets(struct ob_lease_client *base)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT_CLIENT) };
	int error = open_packet_socket((struct ob_dhcp *)base);

	if (!error)
		error = ob_lease_open_udp(base, &address, sizeof(address));
	if (!error)
		error = (int)ob_lease_set_option(base, base->udp, SOL_SOCKET, SO_BROADCAST, 1);
	return error;
}

/* ---- messages ------------------------------------------------------------------- */

static struct ob_dhcp_request make_request(struct ob_dhcp *client, enum ob_dhcp_type type)
{
	uint64_t seconds = (ob_milliseconds() - client->began) / 1000;
	struct ob_dhcp_request request = {
		.type = type,
		.transaction = client->transaction,
		.seconds = seconds > 0xffff ? 0xffff : (uint16_t)seconds,
	};

	memcpy(request.mac, client->base.link.mac, 6);
	return request;
}

static int broadcast_packet(struct ob_dhcp *client, const struct ob_dhcp_request *request)
{
	struct sockaddr_ll everybody = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_IP),
		.sll_ifindex = (int)client->base.link.index,
		.sll_halen = 6,
		.sll_addr = { 255, 255, 255, 255, 255, 255 },
	};
	uint8_t packet[OB_DHCP_REQUEST_BYTES];
	size_t size = ob_dhcp_write_packet(request, packet);
	long sent = ob_syscall_on(client->base.instance, SYS_sendto, (long)client->base.packet,
				  packet, (long)size, 0L, &everybody, (long)sizeof(everybody));

	return sent < 0 ? (int)sent : 0;
}

/* To the server, or to everybody (NULL). */
static int send_message(struct ob_dhcp *client, const struct ob_dhcp_request *request,
			const uint8_t *server)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET,
		.sin_port = htons(PORT_SERVER),
		.sin_addr.s_addr = INADDR_BROADCAST,
	};
	uint8_t message[OB_DHCP_REQUEST_BYTES];
	size_t size = ob_dhcp_write(request, message);
	long sent;

	if (server)
		memcpy(&to.sin_addr, server, 4);
	sent = ob_syscall_on(client->base.instance, SYS_sendto, (long)client->base.udp, message,
			     (long)size, 0L, &to, (long)sizeof(to));
	return sent < 0 ? (int)sent : 0;
}

/* The kernel says whether the sender has left the checksum to a device. */
static bool has_checksum(struct msghdr *header)
{
	struct tpacket_auxdata data;

	for (struct cmsghdr *each = CMSG_FIRSTHDR(header); each; each = CMSG_NXTHDR(header, each)) {
		if (each->cmsg_level != SOL_PACKET || each->cmsg_type != PACKET_AUXDATA ||
		    each->cmsg_len < CMSG_LEN(sizeof(data)))
			continue;
		memcpy(&data, CMSG_DATA(each), sizeof(data));
		return !(data.tp_status & TP_STATUS_CSUMNOTREADY);
	}
	return true;
}

/* Takes one packet off a socket. Returns the message in it, or NULL; *error: the socket's. */
static const uint8_t *receive(struct ob_dhcp *client, int fd, size_t *size, int *error)
{
	struct iovec piece = { client->buffer, sizeof(client->buffer) };
	union {
		struct cmsghdr align;
		char bytes[256];
	} control;
	struct msghdr header = {
		.msg_iov = &piece, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control),
	};
	long length = ob_syscall_on(client->base.instance, SYS_recvmsg, (long)fd, &header,
				    (long)MSG_DONTWAIT);

	*error = length < 0 && length != -EAGAIN ? (int)length : 0;
	if (length < 0)
		return NULL;
	if (fd == client->base.packet)
		return ob_dhcp_find_message(client->buffer, (size_t)length, has_checksum(&header),
					    size);
	*size = (size_t)length;
	return client->buffer;
}

/*
 * Waits for a reply of one of two types, which is stored. 1: it came; 0: the time is over; -errno.
 * A flood of other packets does not extend the time.
 */
static int wait_for_reply(struct ob_dhcp *client, int fd, enum ob_dhcp_type type,
			  enum ob_dhcp_type other_type, uint64_t end, struct ob_dhcp_reply *reply)
{
	do {
		int result = ob_lease_wait_readable(&client->base, fd, end);
		const uint8_t *message;
		size_t size;

		if (result < 0)
			return result;
		if (!result)
			continue;
		message = receive(client, fd, &size, &result);
		if (result == -ENETDOWN)
			continue;
		if (result)
			return result;
		if (message &&
		    ob_dhcp_read(message, size, client->transaction, client->base.link.mac,
				 reply) &&
		    (reply->type == type || reply->type == other_type))
			return 1;
	} while (ob_milliseconds() < end);
	return 0;
}

/* ---- what a lease configures ------------------------------------------------------- */

static void remove_routes(struct ob_dhcp *client)
{
	for (int i = 0; i < client->lease.route_count; i++)
		ob_netlink_route_remove(&client->base.netlink, client->base.link.index,
					&client->lease.routes[i]);
}

static void set_metrics(struct ob_dhcp *client)
{
	for (int i = 0; i < client->lease.route_count; i++)
		client->lease.routes[i].metric = FIRST_METRIC + client->base.link.index;
}

/* A route that Linux refuses is the server's mistake. The others may still be of use. */
static void add_routes(struct ob_dhcp *client)
{
	/* Those on the link come first: gateways may be there. */
	for (int with_gateway = 0; with_gateway < 2; with_gateway++) {
		for (int i = 0; i < client->lease.route_count; i++) {
			const struct ob_route *route = &client->lease.routes[i];

			if (!route->gateway.family == !with_gateway)
				ob_netlink_route_add(&client->base.netlink,
						     client->base.link.index, route);
		}
	}
}

static void remove_lease(struct ob_lease_client *base)
{
	static const struct ob_net_servers none;
	struct ob_dhcp *client = (struct ob_dhcp *)base;

	if (!base->bound)
		return;
	base->bound = false;
	remove_routes(client);
	ob_netlink_address_remove(&base->netlink, base->link.index, &client->lease.address);
	if (!client->fixed_mtu && client->lease.mtu)
		ob_netlink_link_set_mtu(&base->netlink, base->link.index, base->link.mtu);
	ob_lease_set_servers(base, &none);
}

static bool same_address(const struct ob_net_address *a, const struct ob_net_address *b)
{
	return a->family == b->family && a->prefix == b->prefix && !memcmp(a->bytes, b->bytes, 4);
}

/* The metrics are the client's, not the server's. Routes have the lease's address as source. */
static bool same_routes(const struct ob_dhcp_reply *a, const struct ob_dhcp_reply *b)
{
	for (int i = 0; i < a->route_count && i < b->route_count; i++)
		if (!same_address(&a->routes[i].destination, &b->routes[i].destination) ||
		    !same_address(&a->routes[i].gateway, &b->routes[i].gateway) ||
		    a->routes[i].on_link != b->routes[i].on_link)
			return false;
	return a->route_count == b->route_count;
}

static void set_mtu(struct ob_dhcp *client, uint32_t mtu)
{
	if (!client->fixed_mtu && mtu != client->lease.mtu)
		ob_netlink_link_set_mtu(&client->base.netlink, client->base.link.index,
					mtu ? mtu : client->base.link.mtu);
}

/* Configures the interface. `at`: when the request was sent, which is when the lease begins. */
static int use_lease(struct ob_dhcp *client, const struct ob_dhcp_reply *reply, uint64_t at)
{
	struct ob_lease_client *base = &client->base;
	int error;

	if (base->bound && !same_address(&client->lease.address, &reply->address))
		remove_lease(base);
	if (!base->bound)
		client->lease = (struct ob_dhcp_reply){ 0 };
	error = ob_netlink_address_add(&base->netlink, base->link.index, &reply->address,
				       reply->lease, reply->lease, true);
	if (error)
		return error;
	set_mtu(client, reply->mtu);
	if (!base->bound || !same_routes(&client->lease, reply))
		remove_routes(client);
	client->lease = *reply;
	set_metrics(client);
	/* Also routes that are there: Linux drops routes of a link that goes down for a while. */
	add_routes(client);
	base->bound = true;
	base->bound_at = at;
	ob_lease_set_servers(base, &reply->servers);
	return 0;
}

/* ---- INIT and REQUESTING ------------------------------------------------------------ */

/* Sends a message until a reply of a type comes. As wait_for_reply(). */
static int ask(struct ob_dhcp *client, const struct ob_dhcp_request *request,
	       enum ob_dhcp_type type, enum ob_dhcp_type other_type, unsigned int tries,
	       uint64_t end, struct ob_dhcp_reply *reply)
{
	for (unsigned int done = 0; done < tries && ob_milliseconds() < end; done++) {
		int result = broadcast_packet(client, request);

		/* The link may come up again. */
		if (result && result != -ENETDOWN && result != -ENOBUFS)
			return result;
		result = wait_for_reply(client, client->base.packet, type, other_type,
					ob_lease_earlier(ob_lease_pause(&client->base, done), end),
					reply);
		if (result)
			return result;
	}
	return 0;
}

/* Asks for the offered address. 1: it is granted; 0: refused, or no answer; -errno. */
static int request_offer(struct ob_dhcp *client, struct ob_dhcp_reply *reply, uint64_t end)
{
	struct ob_dhcp_request request = make_request(client, OB_DHCP_REQUEST);
	struct ob_dhcp_reply offer = *reply;
	int result;

	memcpy(request.wanted, offer.address.bytes, 4);
	memcpy(request.server, offer.server, 4);
	result = ask(client, &request, OB_DHCP_ACK, OB_DHCP_NAK, REQUEST_TRIES, end, reply);
	if (result != 1 || reply->type == OB_DHCP_NAK)
		return result == 1 ? 0 : result;
	/* A server may leave out in the ACK that it is the one that was asked. */
	memcpy(reply->server, offer.server, 4);
	return 1;
}

/* From INIT to BOUND. */
static int acquire(struct ob_lease_client *base, uint64_t end)
{
	struct ob_dhcp *client = (struct ob_dhcp *)base;
	struct ob_dhcp_reply reply;
	unsigned int refused = 0;
	uint64_t asked;
	int result;

	client->began = ob_milliseconds();
	do {
		struct ob_dhcp_request request;

		client->transaction = ob_lease_random(base);
		ob_lease_drop_packets(base, base->packet);
		request = make_request(client, OB_DHCP_DISCOVER);
		result = ask(client, &request, OB_DHCP_OFFER, OB_DHCP_OFFER, UINT32_MAX, end,
			     &reply);
		asked = ob_milliseconds();
		if (result == 1)
			result = request_offer(client, &reply, end);
		if (result == 1) {
			result = use_lease(client, &reply, asked);
			return result ? result : 1;
		}
		/* A server that offers and refuses again and again is not asked without a pause. */
		if (!result)
			result = wait_for_reply(client, base->packet, OB_DHCP_NAK, OB_DHCP_NAK,
						ob_lease_earlier(ob_lease_pause(base, refused++),
								 end),
						&reply);
	} while (result >= 0 && ob_milliseconds() < end);
	return result < 0 ? result : 0;
}

/* ---- BOUND, RENEWING and REBINDING ----------------------------------------------------- */

static uint64_t end_of_lease(const struct ob_dhcp *client)
{
	uint32_t lease = client->lease.lease;

	return ob_lease_time(&client->base,
			     lease == OB_DHCP_INFINITE ? OB_NEVER : lease * 1000ull);
}

/* Asks for the lease again until `end`. 1: the lease is renewed; 0; -EACCES: refused; -errno. */
static int extend(struct ob_dhcp *client, const uint8_t *server, uint64_t end)
{
	struct ob_dhcp_request request;
	struct ob_dhcp_reply reply;

	client->began = ob_milliseconds();
	client->transaction = ob_lease_random(&client->base);
	ob_lease_drop_packets(&client->base, client->base.udp);
	while (ob_milliseconds() < end) {
		uint64_t asked = ob_milliseconds();
		int result;

		request = make_request(client, OB_DHCP_REQUEST);
		memcpy(request.client, client->lease.address.bytes, 4);
		send_message(client, &request, server);
		result = wait_for_reply(client, client->base.udp, OB_DHCP_ACK, OB_DHCP_NAK,
					ob_lease_next_try(end, client->lease.lease), &reply);
		if (result < 0)
			return result;
		if (!result)
			continue;
		if (reply.type == OB_DHCP_NAK)
			return -EACCES;
		if (server)
			memcpy(reply.server, server, 4);
		result = use_lease(client, &reply, asked);
		return result ? result : 1;
	}
	return 0;
}

/* Until the lease is lost. */
static int keep_lease(struct ob_lease_client *base)
{
	static const uint8_t unknown[4];
	struct ob_dhcp *client = (struct ob_dhcp *)base;
	int result;

	do {
		const struct ob_dhcp_reply *lease = &client->lease;

		result = ob_lease_sleep_until(base, ob_lease_time(base, lease->renew));
		if (!result && memcmp(lease->server, unknown, 4))
			result = extend(client, lease->server, ob_lease_time(base, lease->rebind));
		if (!result)
			result = extend(client, NULL, end_of_lease(client));
	} while (result == 1);
	return result ? result : -ETIMEDOUT;
}

/* So that the server can give the address to another client at once. */
static void release(struct ob_lease_client *base)
{
	struct ob_dhcp *client = (struct ob_dhcp *)base;
	struct ob_dhcp_request request = make_request(client, OB_DHCP_RELEASE);

	memcpy(request.client, client->lease.address.bytes, 4);
	memcpy(request.server, client->lease.server, 4);
	send_message(client, &request, client->lease.server);
}

static const struct ob_lease_protocol protocol = {
	.kind = OB_LEASE_IPV4,
	.word = "dhcp",
	.thread = "outboard dhcp",
	.open = open_sockets,
	.acquire = acquire,
	.keep = keep_lease,
	.release = release,
	.remove = remove_lease,
};

int ob_dhcp_start(struct ob_instance *instance, struct ob_net_interface *interface,
		  const struct ob_link *link, unsigned int seconds, bool fixed_mtu)
{
	int error;
	struct ob_dhcp *client = ob_lease_new(&protocol, sizeof(*client), instance, interface,
					      link, &error);

	if (!client)
		return error;
	client->fixed_mtu = fixed_mtu;
	return ob_lease_start(&client->base, seconds, true);
}
