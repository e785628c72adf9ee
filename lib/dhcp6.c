// SPDX-License-Identifier: GPL-2.0-only
/*
 * A DHCPv6 client (RFC 8415).
 *
 *   state      sends               until                   then
 *   INIT       SOLICIT             ADVERTISE               REQUESTING
 *   REQUESTING REQUEST             REPLY                   BOUND
 *                                  refusal, ten tries      INIT
 *   BOUND      nothing             renewal time            RENEWING
 *   RENEWING   RENEW               REPLY                   BOUND
 *                                  refusal                 INIT, without address
 *                                  rebinding time          REBINDING
 *   REBINDING  REBIND              REPLY                   BOUND
 *                                  refusal, end of lease   INIT, without address
 *
 * A client that wants name servers only:
 *
 *   INIT       INFORMATION-REQUEST REPLY                   INFORMED
 *   INFORMED   nothing             refresh time            INIT, with the servers that it has
 *
 * All messages go to the link's group of servers, also those for one server, whose DUID they have.
 * lease.c has the thread, and the times of tries. Routes come from routers, not from DHCPv6.
 *
 * The kernel itself removes an address whose lease ends, even if the thread cannot run.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "clock.h"
#include "dhcp6.h"
#include "dhcp6_message.h"
#include "instance.h"

#define PORT_CLIENT 546
#define PORT_SERVER 547

#define REQUEST_TRIES 10

/* Milliseconds until the link may have an address: Linux looks for duplicates of it first. */
#define ADDRESS_PAUSE 100

/* A server with this preference is chosen at once. */
#define PREFERENCE_MOST 255

struct ob_dhcp6 {
	struct ob_lease_client base;
	enum ob_dhcp6_mode mode;
	uint64_t began;			/* milliseconds, as all times here */
	struct ob_dhcp6_reply lease;
	uint8_t buffer[2048];		/* replies: as long as packets of an Ethernet link */
};

/* ---- messages ------------------------------------------------------------------- */

static int open_socket(struct ob_lease_client *base)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6,
					.sin6_port = htons(PORT_CLIENT) };

	return ob_lease_open_udp(base, &address, sizeof(address));
}

/* Begins a transaction. */
static struct ob_dhcp6_request make_request(struct ob_dhcp6 *client, enum ob_dhcp6_type type,
					    const struct ob_dhcp6_reply *lease)
{
	struct ob_dhcp6_request request = {
		.type = type,
		.transaction = ob_lease_random(&client->base),
	};

	memcpy(request.mac, client->base.link.mac, 6);
	if (lease)
		request.address = lease->address;
	if (lease && type != OB_DHCP6_REBIND)
		request.server = lease->server;
	client->began = ob_milliseconds();
	ob_lease_drop_packets(&client->base, client->base.udp);
	return request;
}

static int send_request(struct ob_dhcp6 *client, struct ob_dhcp6_request *request)
{
	struct sockaddr_in6 servers = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(PORT_SERVER),
		.sin6_addr.s6_addr = { 0xff, 2, [13] = 1, [15] = 2 },
		.sin6_scope_id = client->base.link.index,
	};
	uint64_t elapsed = (ob_milliseconds() - client->began) / 10;
	uint8_t message[OB_DHCP6_REQUEST_BYTES];
	size_t size;
	long sent;

	request->elapsed = elapsed > 0xffff ? 0xffff : (uint16_t)elapsed;
	size = ob_dhcp6_write(request, message);
	sent = ob_syscall_on(client->base.instance, SYS_sendto, (long)client->base.udp, message,
			     (long)size, 0L, &servers, (long)sizeof(servers));
	return sent < 0 ? (int)sent : 0;
}

/* No router forwards a packet from such an address: the sender is on the link. */
static bool is_on_link(const struct sockaddr_in6 *sender)
{
	return sender->sin6_addr.s6_addr[0] == 0xfe &&
	       (sender->sin6_addr.s6_addr[1] & 0xc0) == 0x80;
}

static bool is_same_server(const struct ob_dhcp6_duid *a, const struct ob_dhcp6_duid *b)
{
	return a->size == b->size && !memcmp(a->bytes, b->bytes, a->size);
}

static bool is_answer(const struct ob_dhcp6_request *request, const struct ob_dhcp6_reply *reply)
{
	if (request->type == OB_DHCP6_SOLICIT)
		return reply->type == OB_DHCP6_ADVERTISE && reply->address.family;
	if (reply->type != OB_DHCP6_REPLY)
		return false;
	if (request->type == OB_DHCP6_INFORMATION)
		return true;
	return reply->has_association &&
	       (!request->server.size || is_same_server(&request->server, &reply->server));
}

/* Takes one packet off the socket. 1: it is an answer; 0: it is none; -errno. */
static int receive(struct ob_dhcp6 *client, const struct ob_dhcp6_request *request,
		   struct ob_dhcp6_reply *reply)
{
	struct sockaddr_in6 sender = { 0 };
	int room = sizeof(sender);
	long length = ob_syscall_on(client->base.instance, SYS_recvfrom, (long)client->base.udp,
				    client->buffer, (long)sizeof(client->buffer),
				    (long)MSG_DONTWAIT, &sender, &room);

	if (length == -EAGAIN || length == -ENETDOWN)
		return 0;
	if (length < 0)
		return (int)length;
	return is_on_link(&sender) &&
	       ob_dhcp6_read(client->buffer, (size_t)length, request, reply) &&
	       is_answer(request, reply);
}

/*
 * Waits for an answer, which is stored. 1: it came; 0: the time is over; -errno. `choose`: waits
 * for the whole time, and stores the answer of the preferred server. A flood of other packets does
 * not extend the time.
 */
static int wait_for_answer(struct ob_dhcp6 *client, const struct ob_dhcp6_request *request,
			   bool choose, uint64_t end, struct ob_dhcp6_reply *best)
{
	bool found = false;

	do {
		int result = ob_lease_wait_readable(&client->base, client->base.udp, end);
		struct ob_dhcp6_reply reply;

		if (result == 1)
			result = receive(client, request, &reply);
		if (result < 0)
			return result;
		if (!result)
			continue;
		if (!found || reply.preference > best->preference)
			*best = reply;
		found = true;
		if (!choose || best->preference == PREFERENCE_MOST)
			break;
	} while (ob_milliseconds() < end);
	return found;
}

/* The link may get an address, or come up again. */
static bool is_passing(int error)
{
	return error == -EADDRNOTAVAIL || error == -ENETUNREACH || error == -ENETDOWN ||
	       error == -ENOBUFS;
}

/* Sends a message until an answer comes. As wait_for_answer(). */
static int ask(struct ob_dhcp6 *client, struct ob_dhcp6_request *request, unsigned int tries,
	       uint64_t end, struct ob_dhcp6_reply *reply)
{
	unsigned int done = 0;

	while (done < tries && ob_milliseconds() < end) {
		bool choose = request->type == OB_DHCP6_SOLICIT && !done;
		int result = send_request(client, request);
		uint64_t pause;

		if (result && !is_passing(result))
			return result;
		pause = result ? ob_milliseconds() + ADDRESS_PAUSE
			       : ob_lease_pause(&client->base, done++);
		result = wait_for_answer(client, request, choose, ob_lease_earlier(pause, end),
					 reply);
		if (result)
			return result;
	}
	return 0;
}

/* ---- what a lease configures ------------------------------------------------------- */

static void remove_lease(struct ob_lease_client *base)
{
	static const struct ob_net_servers none;
	struct ob_dhcp6 *client = (struct ob_dhcp6 *)base;

	if (!base->bound)
		return;
	base->bound = false;
	if (client->lease.address.family)
		ob_netlink_address_remove(&base->netlink, base->link.index,
					  &client->lease.address);
	ob_lease_set_servers(base, &none);
}

static bool is_same_address(const struct ob_dhcp6_reply *a, const struct ob_dhcp6_reply *b)
{
	return !memcmp(a->address.bytes, b->address.bytes, 16);
}

/* Configures the interface. `at`: when the request was sent, which is when the lease begins. */
static int use_lease(struct ob_dhcp6 *client, const struct ob_dhcp6_reply *reply, uint64_t at)
{
	struct ob_lease_client *base = &client->base;
	int error = 0;

	if (base->bound && !is_same_address(&client->lease, reply))
		remove_lease(base);
	if (client->mode == OB_DHCP6_ADDRESS)
		error = ob_netlink_address_add(&base->netlink, base->link.index, &reply->address,
					       reply->preferred, reply->valid, true);
	if (error)
		return error;
	client->lease = *reply;
	base->bound = true;
	base->bound_at = at;
	ob_lease_set_servers(base, &reply->servers);
	return 0;
}

/* ---- INIT and REQUESTING ------------------------------------------------------------ */

/* 1: informed; 0: no answer came before `end`; -errno. */
static int inform(struct ob_dhcp6 *client, uint64_t end)
{
	struct ob_dhcp6_request request = make_request(client, OB_DHCP6_INFORMATION, NULL);
	struct ob_dhcp6_reply reply;
	int result = ask(client, &request, UINT32_MAX, end, &reply);

	if (result != 1)
		return result;
	/* A server may send an address that nobody has asked for. */
	reply.address.family = 0;
	result = use_lease(client, &reply, ob_milliseconds());
	return result ? result : 1;
}

/* Asks one server for the address that it has offered. 1: granted; 0: no, or no answer; -errno. */
static int request_offer(struct ob_dhcp6 *client, const struct ob_dhcp6_reply *offer, uint64_t end)
{
	struct ob_dhcp6_request request = make_request(client, OB_DHCP6_REQUEST, offer);
	uint64_t asked = ob_milliseconds();
	struct ob_dhcp6_reply reply;
	int result = ask(client, &request, REQUEST_TRIES, end, &reply);

	if (result != 1)
		return result;
	if (!reply.address.family)
		return 0;
	result = use_lease(client, &reply, asked);
	return result ? result : 1;
}

/* From INIT to BOUND or INFORMED. */
static int acquire(struct ob_lease_client *base, uint64_t end)
{
	struct ob_dhcp6 *client = (struct ob_dhcp6 *)base;
	unsigned int refused = 0;
	int result;

	if (client->mode == OB_DHCP6_SERVERS)
		return inform(client, end);
	do {
		struct ob_dhcp6_request request = make_request(client, OB_DHCP6_SOLICIT, NULL);
		struct ob_dhcp6_reply offer;

		result = ask(client, &request, UINT32_MAX, end, &offer);
		if (result == 1)
			result = request_offer(client, &offer, end);
		if (result == 1)
			return 1;
		/* A server that offers and refuses again and again is not asked without a pause. */
		if (!result)
			result = ob_lease_sleep_until(
				base, ob_lease_earlier(ob_lease_pause(base, refused++), end));
	} while (result >= 0 && ob_milliseconds() < end);
	return result < 0 ? result : 0;
}

/* ---- BOUND, RENEWING, REBINDING and INFORMED ------------------------------------------- */

static uint64_t end_of_lease(const struct ob_dhcp6 *client)
{
	uint32_t valid = client->lease.valid;

	return ob_lease_time(&client->base,
			     valid == OB_DHCP6_INFINITE ? OB_NEVER : valid * 1000ull);
}

/* Asks for the lease again until `end`. 1: the lease is renewed; 0; -EACCES: refused; -errno. */
static int extend(struct ob_dhcp6 *client, enum ob_dhcp6_type type, uint64_t end)
{
	struct ob_dhcp6_request request;
	struct ob_dhcp6_reply reply;

	if (ob_milliseconds() >= end)
		return 0;
	request = make_request(client, type, &client->lease);
	do {
		uint64_t asked = ob_milliseconds();
		int result;

		send_request(client, &request);
		result = wait_for_answer(client, &request, false,
					 ob_lease_next_try(end, client->lease.valid), &reply);
		if (result < 0)
			return result;
		if (!result)
			continue;
		if (!reply.address.family)
			return -EACCES;
		result = use_lease(client, &reply, asked);
		return result ? result : 1;
	} while (ob_milliseconds() < end);
	return 0;
}

/* Until the lease is lost; information never is. */
static int keep_lease(struct ob_lease_client *base)
{
	struct ob_dhcp6 *client = (struct ob_dhcp6 *)base;
	int result;

	do {
		const struct ob_dhcp6_reply *lease = &client->lease;
		bool has_address = client->mode == OB_DHCP6_ADDRESS;

		result = ob_lease_sleep_until(base, ob_lease_time(base, has_address
									? lease->renew
									: lease->refresh));
		if (!result && !has_address)
			result = inform(client, OB_NEVER);
		if (!result)
			result = extend(client, OB_DHCP6_RENEW, ob_lease_time(base, lease->rebind));
		if (!result)
			result = extend(client, OB_DHCP6_REBIND, end_of_lease(client));
	} while (result == 1);
	return result ? result : -ETIMEDOUT;
}

/* So that the server can give the address to another client at once. */
static void release(struct ob_lease_client *base)
{
	struct ob_dhcp6 *client = (struct ob_dhcp6 *)base;
	struct ob_dhcp6_request request;

	if (client->mode == OB_DHCP6_SERVERS)
		return;
	request = make_request(client, OB_DHCP6_RELEASE, &client->lease);
	send_request(client, &request);
}

static const struct ob_lease_protocol protocol = {
	.kind = OB_LEASE_IPV6,
	.word = "dhcp6",
	.thread = "outboard dhcp6",
	.open = open_socket,
	.acquire = acquire,
	.keep = keep_lease,
	.release = release,
	.remove = remove_lease,
};

int ob_dhcp6_start(struct ob_instance *instance, struct ob_net_interface *interface,
		   const struct ob_link *link, unsigned int seconds, enum ob_dhcp6_mode mode)
{
	int error;
	struct ob_dhcp6 *client = ob_lease_new(&protocol, sizeof(*client), instance, interface,
					       link, &error);

	if (!client)
		return error;
	client->mode = mode;
	return ob_lease_start(&client->base, seconds, mode == OB_DHCP6_ADDRESS);
}
