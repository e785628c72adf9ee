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
 * REBINDING use a UDP socket. The first lease comes on the thread of the program that asks for it,
 * so that ob_interrupt() ends the wait. Then a thread of the client's own keeps the lease. The
 * thread has descriptors of its own in the kernel: the program neither sees nor closes them.
 *
 * The kernel itself removes an address whose lease ends, even if the thread cannot run.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "clock.h"
#include "dhcp.h"
#include "dhcp_message.h"
#include "error.h"
#include "instance.h"
#include "wait.h"

#define fail(error, ...) ob_error_set(OB_ERROR_NET, error, __VA_ARGS__)

#define PORT_SERVER 67
#define PORT_CLIENT 68

/* Milliseconds between two tries: doubled each time. RFC 2131 begins with 4 seconds. */
#define FIRST_PAUSE 1000
#define LONGEST_PAUSE 64000
#define REQUEST_TRIES 4
/* Between two requests to renew a lease, if the lease is long enough for that. */
#define RENEW_PAUSE 60000

#define FOR_EVER UINT64_MAX

#define LEVEL_WARNING 4

/* Routes of leases yield to static ones, and to those of interfaces that came before. */
#define FIRST_METRIC 1024

#define SOCKET_COUNT 3

#define SOCKETS(client) { (client)->packet, (client)->udp, (client)->netlink.fd }

struct ob_dhcp {
	struct ob_instance *instance;
	struct ob_net_interface *interface;
	struct ob_link link;
	bool fixed_mtu;
	int packet, udp;		/* sockets */
	uint32_t transaction;
	uint64_t began;			/* milliseconds, as all times here */
	bool bound;			/* the interface has the lease */
	uint64_t bound_at;
	struct ob_dhcp_reply lease;

	/* Of the thread. */
	uint64_t thread;
	bool stop;			/* atomic */
	int task;			/* atomic; Linux's number of the thread, 0: none */
	pthread_mutex_t mutex;		/* of `ready` */
	pthread_cond_t changed;
	bool ready;			/* `task` and `error` are set */
	int error;			/* the thread has ended: it has no descriptors of its own */

	struct ob_netlink netlink;
	uint8_t buffer[2048];		/* replies: the client announces 1500 bytes at most */
};

static uint32_t random_number(struct ob_dhcp *client)
{
	uint32_t number = (uint32_t)ob_milliseconds();

	ob_syscall_on(client->instance, SYS_getrandom, &number, (long)sizeof(number),
		      1L /* GRND_NONBLOCK */);
	return number;
}

static bool is_stopped(const struct ob_dhcp *client)
{
	return __atomic_load_n(&client->stop, __ATOMIC_SEQ_CST);
}

/* ---- sockets ------------------------------------------------------------------ */

static long set_option(struct ob_dhcp *client, int fd, int level, int option, int value)
{
	return ob_syscall_on(client->instance, SYS_setsockopt, (long)fd, (long)level, (long)option,
			     &value, (long)sizeof(value));
}

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

	return (int)ob_syscall_on(client->instance, SYS_setsockopt, (long)client->packet,
				  (long)SOL_SOCKET, (long)SO_ATTACH_FILTER, &program,
				  (long)sizeof(program));
}

static int open_packet_socket(struct ob_dhcp *client)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_IP),
		.sll_ifindex = (int)client->link.index,
	};
	int error;

	/* Protocol 0: nothing arrives before the filter is there. */
	client->packet = (int)ob_syscall_on(client->instance, SYS_socket, (long)AF_PACKET,
					    (long)(SOCK_DGRAM | SOCK_CLOEXEC), 0L);
	if (client->packet < 0)
		return client->packet;
	error = attach_filter(client);
	if (!error)
		error = (int)set_option(client, client->packet, SOL_PACKET, PACKET_AUXDATA, 1);
	if (!error)
		error = (int)ob_syscall_on(client->instance, SYS_bind, (long)client->packet,
					   &address, (long)sizeof(address));
	return error;
}

static int open_udp_socket(struct ob_dhcp *client)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT_CLIENT) };
	int fd, error;

	fd = client->udp = (int)ob_syscall_on(client->instance, SYS_socket, (long)AF_INET,
					      (long)(SOCK_DGRAM | SOCK_CLOEXEC), 0L);
	if (fd < 0)
		return fd;
	error = (int)set_option(client, fd, SOL_SOCKET, SO_BINDTOIFINDEX, (int)client->link.index);
	if (!error)
		error = (int)set_option(client, fd, SOL_SOCKET, SO_BROADCAST, 1);
	if (!error)
		error = (int)ob_syscall_on(client->instance, SYS_bind, (long)fd, &address,
					   (long)sizeof(address));
	return error;
}

static int open_sockets(struct ob_dhcp *client)
{
	int error = ob_netlink_open(&client->netlink, client->instance, 0);

	if (!error)
		error = open_packet_socket(client);
	return error ? error : open_udp_socket(client);
}

/* The sockets in one table of descriptors. -1: there is none. */
static void close_sockets(struct ob_instance *instance, const int sockets[SOCKET_COUNT])
{
	for (int i = 0; i < SOCKET_COUNT; i++)
		if (sockets[i] >= 0)
			ob_syscall_on(instance, SYS_close, (long)sockets[i]);
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

	memcpy(request.mac, client->link.mac, 6);
	return request;
}

static int broadcast_packet(struct ob_dhcp *client, const struct ob_dhcp_request *request)
{
	struct sockaddr_ll everybody = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_IP),
		.sll_ifindex = (int)client->link.index,
		.sll_halen = 6,
		.sll_addr = { 255, 255, 255, 255, 255, 255 },
	};
	uint8_t packet[OB_DHCP_REQUEST_BYTES];
	size_t size = ob_dhcp_write_packet(request, packet);
	long sent = ob_syscall_on(client->instance, SYS_sendto, (long)client->packet, packet,
				  (long)size, 0L, &everybody, (long)sizeof(everybody));

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
	sent = ob_syscall_on(client->instance, SYS_sendto, (long)client->udp, message, (long)size,
			     0L, &to, (long)sizeof(to));
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
	long length = ob_syscall_on(client->instance, SYS_recvmsg, (long)fd, &header,
				    (long)MSG_DONTWAIT);

	*error = length < 0 && length != -EAGAIN ? (int)length : 0;
	if (length < 0)
		return NULL;
	if (fd == client->packet)
		return ob_dhcp_find_message(client->buffer, (size_t)length, has_checksum(&header),
					    size);
	*size = (size_t)length;
	return client->buffer;
}

/* Packets that arrive between transactions need no answer. */
static void drop_packets(struct ob_dhcp *client, int fd)
{
	int error = 0;
	size_t size;

	for (int i = 0; i < 1000 && !error; i++)
		if (!receive(client, fd, &size, &error) && !error)
			break;
}

/* Waits on a socket: 1 readable, 0 the time is over, -errno. */
static int wait_readable(struct ob_dhcp *client, int fd, uint64_t end)
{
	struct pollfd waiting = { .fd = fd, .events = POLLIN };
	uint64_t time = ob_milliseconds();
	long left = time >= end ? 0 : end - time > 3600000 ? 3600000 : (long)(end - time);

	if (is_stopped(client))
		return -EINTR;
	return (int)ob_syscall_on(client->instance, SYS_poll, &waiting, 1L, left);
}

/*
 * Waits for a reply of one of two types, which is stored. 1: it came; 0: the time is over; -errno.
 * A flood of other packets does not extend the time.
 */
static int wait_for_reply(struct ob_dhcp *client, int fd, enum ob_dhcp_type type,
			  enum ob_dhcp_type other_type, uint64_t end, struct ob_dhcp_reply *reply)
{
	do {
		int result = wait_readable(client, fd, end);
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
		if (message && ob_dhcp_read(message, size, client->transaction, client->link.mac,
					    reply) &&
		    (reply->type == type || reply->type == other_type))
			return 1;
	} while (ob_milliseconds() < end);
	return 0;
}

/* ---- what a lease configures ------------------------------------------------------- */

static void set_servers(struct ob_dhcp *client, const struct ob_net_servers *servers)
{
	struct ob_net_servers *leased = &client->interface->leased;

	pthread_mutex_lock(&client->instance->net.mutex);
	if (memcmp(leased, servers, sizeof(*leased))) {
		*leased = *servers;
		/* Without the file the lease is of use all the same. */
		ob_resolver_write(client->instance);
	}
	pthread_mutex_unlock(&client->instance->net.mutex);
}

static void remove_routes(struct ob_dhcp *client)
{
	for (int i = 0; i < client->lease.route_count; i++)
		ob_netlink_route_remove(&client->netlink, client->link.index,
					&client->lease.routes[i]);
}

static void set_metrics(struct ob_dhcp *client)
{
	for (int i = 0; i < client->lease.route_count; i++)
		client->lease.routes[i].metric = FIRST_METRIC + client->link.index;
}

/* A route that Linux refuses is the server's mistake. The others may still be of use. */
static void add_routes(struct ob_dhcp *client)
{
	/* Those on the link come first: gateways may be there. */
	for (int with_gateway = 0; with_gateway < 2; with_gateway++) {
		for (int i = 0; i < client->lease.route_count; i++) {
			const struct ob_route *route = &client->lease.routes[i];

			if (!route->gateway.family == !with_gateway)
				ob_netlink_route_add(&client->netlink, client->link.index, route);
		}
	}
}

static void remove_lease(struct ob_dhcp *client)
{
	static const struct ob_net_servers none;

	if (!client->bound)
		return;
	client->bound = false;
	remove_routes(client);
	ob_netlink_address_remove(&client->netlink, client->link.index, &client->lease.address);
	if (!client->fixed_mtu && client->lease.mtu)
		ob_netlink_link_set_mtu(&client->netlink, client->link.index, client->link.mtu);
	set_servers(client, &none);
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
		ob_netlink_link_set_mtu(&client->netlink, client->link.index,
					mtu ? mtu : client->link.mtu);
}

/* Configures the interface. `at`: when the request was sent, which is when the lease begins. */
static int use_lease(struct ob_dhcp *client, const struct ob_dhcp_reply *reply, uint64_t at)
{
	int error;

	if (client->bound && !same_address(&client->lease.address, &reply->address))
		remove_lease(client);
	if (!client->bound)
		client->lease = (struct ob_dhcp_reply){ 0 };
	error = ob_netlink_address_add(&client->netlink, client->link.index, &reply->address,
				       reply->lease, true);
	if (error)
		return error;
	set_mtu(client, reply->mtu);
	if (!client->bound || !same_routes(&client->lease, reply))
		remove_routes(client);
	client->lease = *reply;
	set_metrics(client);
	/* Also routes that are there: Linux drops routes of a link that goes down for a while. */
	add_routes(client);
	client->bound = true;
	client->bound_at = at;
	set_servers(client, &reply->servers);
	return 0;
}

/* ---- INIT and REQUESTING ------------------------------------------------------------ */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* With up to a second more or less, so that many clients do not ask at once. */
static uint64_t pause_after(struct ob_dhcp *client, unsigned int tries)
{
	uint64_t pause = FIRST_PAUSE;

	while (tries-- && pause < LONGEST_PAUSE)
		pause *= 2;
	return ob_milliseconds() + pause - pause / 4 + random_number(client) % (pause / 2);
}

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
		result = wait_for_reply(client, client->packet, type, other_type,
					earlier(pause_after(client, done), end), reply);
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

/* From INIT to BOUND. 0: no lease came before `end`; 1; -errno. */
static int acquire(struct ob_dhcp *client, uint64_t end)
{
	struct ob_dhcp_reply reply;
	unsigned int refused = 0;
	uint64_t asked;
	int result;

	client->began = ob_milliseconds();
	do {
		struct ob_dhcp_request request;

		client->transaction = random_number(client);
		drop_packets(client, client->packet);
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
			result = wait_for_reply(client, client->packet, OB_DHCP_NAK, OB_DHCP_NAK,
						earlier(pause_after(client, refused++), end),
						&reply);
	} while (result >= 0 && ob_milliseconds() < end);
	return result < 0 ? result : 0;
}

/* ---- BOUND, RENEWING and REBINDING ----------------------------------------------------- */

static uint64_t time_of(const struct ob_dhcp *client, uint64_t milliseconds)
{
	return milliseconds == OB_DHCP_NEVER ? FOR_EVER : client->bound_at + milliseconds;
}

static uint64_t end_of_lease(const struct ob_dhcp *client)
{
	uint32_t lease = client->lease.lease;

	return time_of(client, lease == OB_DHCP_INFINITE ? OB_DHCP_NEVER : lease * 1000ull);
}

/* 0: the time is over; -errno. */
static int sleep_until(struct ob_dhcp *client, uint64_t end)
{
	while (ob_milliseconds() < end) {
		int result = wait_readable(client, client->udp, end);

		if (result < 0)
			return result;
		if (result)
			drop_packets(client, client->udp);
	}
	return 0;
}

/* Half of what is left, but not in less than a minute, or an eighth of a short lease. */
static uint64_t next_try(const struct ob_dhcp *client, uint64_t end)
{
	uint64_t time = ob_milliseconds(), least = client->lease.lease * 1000ull / 8;
	uint64_t pause = time < end ? (end - time) / 2 : 0;

	if (least > RENEW_PAUSE)
		least = RENEW_PAUSE;
	return earlier(time + (pause > least ? pause : least), end);
}

/* Asks for the lease again until `end`. 1: the lease is renewed; 0; -EACCES: refused; -errno. */
static int extend(struct ob_dhcp *client, const uint8_t *server, uint64_t end)
{
	struct ob_dhcp_request request;
	struct ob_dhcp_reply reply;

	client->began = ob_milliseconds();
	client->transaction = random_number(client);
	drop_packets(client, client->udp);
	while (ob_milliseconds() < end) {
		uint64_t asked = ob_milliseconds();
		int result;

		request = make_request(client, OB_DHCP_REQUEST);
		memcpy(request.client, client->lease.address.bytes, 4);
		send_message(client, &request, server);
		result = wait_for_reply(client, client->udp, OB_DHCP_ACK, OB_DHCP_NAK,
					next_try(client, end), &reply);
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

/* Keeps the lease until it is lost. -EACCES, -ETIMEDOUT: the server ended it; or -errno. */
static int keep_lease(struct ob_dhcp *client)
{
	static const uint8_t unknown[4];
	int result;

	do {
		const struct ob_dhcp_reply *lease = &client->lease;

		result = sleep_until(client, time_of(client, lease->renew));
		if (!result && memcmp(lease->server, unknown, 4))
			result = extend(client, lease->server, time_of(client, lease->rebind));
		if (!result)
			result = extend(client, NULL, end_of_lease(client));
	} while (result == 1);
	return result ? result : -ETIMEDOUT;
}

/* ---- the thread ------------------------------------------------------------------------- */

/*
 * Gives the thread a table of descriptors that has the client's sockets only. The sockets were made
 * by the caller, so they are in its network namespace. On failure the table is still the program's.
 */
static int take_descriptors(struct ob_dhcp *client)
{
	int sockets[SOCKET_COUNT] = SOCKETS(client);
	unsigned int first = 0, last = 0;
	long error;

	for (int i = 0; i < SOCKET_COUNT; i++)
		if ((unsigned int)sockets[i] > last)
			last = (unsigned int)sockets[i];
	error = ob_syscall_on(client->instance, SYS_close_range, (long)last + 1, (long)~0u,
			      2L /* CLOSE_RANGE_UNSHARE */);
	if (error)
		return (int)error;
	for (unsigned int fd = 0; fd <= last; fd++) {
		if (fd != (unsigned int)sockets[0] && fd != (unsigned int)sockets[1] &&
		    fd != (unsigned int)sockets[2])
			continue;
		if (fd > first)
			ob_syscall_on(client->instance, SYS_close_range, (long)first, (long)fd - 1,
				      0L);
		first = fd + 1;
	}
	return 0;
}

static void set_ready(struct ob_dhcp *client)
{
	pthread_mutex_lock(&client->mutex);
	client->ready = true;
	pthread_cond_signal(&client->changed);
	pthread_mutex_unlock(&client->mutex);
}

/* Signals of the kernel are for the program's threads. */
static void block_signals(struct ob_dhcp *client)
{
	uint64_t all = ~0ull;

	ob_syscall_on(client->instance, SYS_rt_sigprocmask, 2L /* SIG_SETMASK */, &all, NULL,
		      (long)sizeof(all));
}

/* The client was stopped, the kernel has halted, or the interface is gone. */
static bool is_over(const struct ob_dhcp *client, int result)
{
	return is_stopped(client) || result == -ENODEV || result == -ENXIO;
}

/* The server ended the lease. The client asks for another one at once. */
static bool is_lease_over(int result)
{
	return result == -EACCES || result == -ETIMEDOUT;
}

/* So that the server can give the address to another client at once. */
static void release(struct ob_dhcp *client)
{
	struct ob_dhcp_request request = make_request(client, OB_DHCP_RELEASE);

	memcpy(request.client, client->lease.address.bytes, 4);
	memcpy(request.server, client->lease.server, 4);
	send_message(client, &request, client->lease.server);
}

static void warn(struct ob_dhcp *client, const char *text)
{
	char line[120];
	int length = snprintf(line, sizeof(line), "net %s: dhcp: %s", client->link.name, text);

	ob_log_line(&client->instance->log, LEVEL_WARNING, line, (uint64_t)length);
}

static bool kernel_runs(struct ob_dhcp *client)
{
	return ob_syscall_on(client->instance, SYS_gettid) > 0;
}

/* Waits before another try. 0 or -errno. */
static int rest(struct ob_dhcp *client, unsigned int failures)
{
	uint64_t end = pause_after(client, failures), time = ob_milliseconds();

	if (is_stopped(client))
		return -EINTR;
	return (int)ob_syscall_on(client->instance, SYS_poll, NULL, 0L,
				  (long)(end > time ? end - time : 0));
}

/* Gets another lease after the loss of one. 1, or an error for which is_over() is true. */
static int reacquire(struct ob_dhcp *client, int result)
{
	if (is_lease_over(result))
		result = acquire(client, FOR_EVER);
	for (unsigned int failures = 0; result != 1 && !is_over(client, result); failures++) {
		result = rest(client, failures);
		if (!is_over(client, result))
			result = acquire(client, FOR_EVER);
	}
	return result;
}

static void keep_leases(struct ob_dhcp *client)
{
	int result;

	do {
		result = keep_lease(client);
		if (is_stopped(client))
			release(client);
		remove_lease(client);
		result = reacquire(client, result);
	} while (result == 1);
	if (!is_stopped(client) && kernel_runs(client))
		warn(client, "the client has ended: the interface is gone");
}

static void run(void *argument)
{
	struct ob_dhcp *client = argument;
	int sockets[SOCKET_COUNT] = SOCKETS(client);

	block_signals(client);
	client->error = take_descriptors(client);
	if (client->error) {
		set_ready(client);
		return;
	}
	__atomic_store_n(&client->task, (int)ob_syscall_on(client->instance, SYS_gettid),
			 __ATOMIC_SEQ_CST);
	set_ready(client);
	keep_leases(client);
	close_sockets(client->instance, sockets);
	/* Another thread may get the number now. */
	__atomic_store_n(&client->task, 0, __ATOMIC_SEQ_CST);
}

static int start_thread(struct ob_dhcp *client)
{
	int error = ob_host_thread_create(client->instance->host, run, client, "outboard dhcp",
					  &client->thread);

	if (error)
		return error;
	pthread_mutex_lock(&client->mutex);
	while (!client->ready)
		ob_condition_wait(&client->changed, &client->mutex);
	pthread_mutex_unlock(&client->mutex);
	if (client->error)
		ob_host_thread_join(client->instance->host, client->thread);
	return client->error;
}

/* ---- calls ------------------------------------------------------------------------------- */

static int get_first_lease(struct ob_dhcp *client, unsigned int seconds)
{
	const char *name = client->interface->name;
	int result = open_sockets(client);

	if (result)
		return fail(result, "%s: dhcp: no socket: %s", name, strerror(-result));
	result = acquire(client, ob_milliseconds() + seconds * 1000ull);
	if (!result)
		return fail(-ETIMEDOUT, "%s: dhcp: no server has given a lease in %u seconds", name,
			    seconds);
	if (result < 0)
		return fail(result, "%s: dhcp: %s", name,
			    ob_netlink_reason(&client->netlink, result));
	return 0;
}

static struct ob_dhcp *new_client(struct ob_instance *instance, struct ob_net_interface *interface,
				  const struct ob_link *link, bool fixed_mtu)
{
	struct ob_dhcp *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	client->instance = instance;
	client->interface = interface;
	client->link = *link;
	client->fixed_mtu = fixed_mtu;
	client->packet = client->udp = client->netlink.fd = -1;
	pthread_mutex_init(&client->mutex, NULL);
	pthread_cond_init(&client->changed, NULL);
	return client;
}

/* From here on the lease is the thread's. */
static int hand_over(struct ob_dhcp *client)
{
	struct ob_net_interface *interface = client->interface;
	struct ob_instance *instance = client->instance;
	int sockets[SOCKET_COUNT] = SOCKETS(client);
	int error = start_thread(client);

	if (error) {
		remove_lease(client);
		free(client);
		fail(error, "%s: dhcp: no thread for the client: %s", interface->name,
		     strerror(-error));
	} else {
		interface->dhcp = client;
	}
	/* The thread has copies of its own. */
	close_sockets(instance, sockets);
	return error;
}

int ob_dhcp_start(struct ob_instance *instance, struct ob_net_interface *interface,
		  const struct ob_link *link, unsigned int seconds, bool fixed_mtu)
{
	struct ob_dhcp *client;
	int error;

	/* A client that has ended by itself is of no use. */
	if (interface->dhcp && !__atomic_load_n(&interface->dhcp->task, __ATOMIC_SEQ_CST))
		ob_dhcp_stop(interface);
	if (interface->dhcp)
		return fail(-EEXIST, "%s: dhcp: a client runs already", interface->name);
	if (!link->has_mac || link->flags & IFF_LOOPBACK)
		return fail(-EOPNOTSUPP, "%s: dhcp: this interface is no Ethernet",
			    interface->name);
	client = new_client(instance, interface, link, fixed_mtu);
	if (!client)
		return fail(-ENOMEM, "%s: dhcp: %s", interface->name, strerror(ENOMEM));
	error = get_first_lease(client, seconds);
	if (error) {
		remove_lease(client);
		close_sockets(instance, (int[])SOCKETS(client));
		free(client);
		return error;
	}
	return hand_over(client);
}

void ob_dhcp_stop(struct ob_net_interface *interface)
{
	struct ob_dhcp *client = interface->dhcp;
	int task;

	if (!client)
		return;
	__atomic_store_n(&client->stop, true, __ATOMIC_SEQ_CST);
	task = __atomic_load_n(&client->task, __ATOMIC_SEQ_CST);
	/* -EAGAIN: too many interrupts at once, which the kernel soon works off. */
	while (task && ob_interrupt_on(client->instance, task) == -EAGAIN)
		sched_yield();
	ob_host_thread_join(client->instance->host, client->thread);
	interface->dhcp = NULL;
	free(client);
}
