// SPDX-License-Identifier: GPL-2.0-only
/*
 * libslirp with its timers, descriptors and port forwards.
 *
 * libslirp has lists of the whole process, so that opening and closing happen one at a time.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "internal.h"
#include "raw.h"
#include "user_slirp_loop.h"

#define NSEC_PER_MSEC 1000000ll

struct ob_slirp_timer {
	struct ob_slirp_timer *next;
	void (*expired)(void *data);
	void *data;
	int64_t time;		/* in milliseconds; -1: not set */
};

static pthread_mutex_t lists_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- calls from libslirp -------------------------------------------------- */

static ssize_t send_packet(const void *frame, size_t length, void *opaque)
{
	struct ob_slirp *slirp = opaque;

	slirp->send(slirp->opaque, frame, length);
	return (ssize_t)length;
}

/* The kernel's frames are wrong: nothing that the program can change. */
static void guest_error(const char *message, void *opaque)
{
	(void)message;
	(void)opaque;
}

static int64_t clock_get_ns(void *opaque)
{
	(void)opaque;
	return (int64_t)ob_net_clock(CLOCK_MONOTONIC);
}

static void *timer_new(void (*expired)(void *data), void *data, void *opaque)
{
	struct ob_slirp *slirp = opaque;
	struct ob_slirp_timer *timer = calloc(1, sizeof(*timer));

	/* libslirp expects that memory never ends: GLib ends the program then. */
	if (!timer)
		abort();
	*timer = (struct ob_slirp_timer){ slirp->timers, expired, data, -1 };
	slirp->timers = timer;
	return timer;
}

static void timer_free(void *pointer, void *opaque)
{
	struct ob_slirp *slirp = opaque;
	struct ob_slirp_timer **link = &slirp->timers;

	while (*link && *link != pointer)
		link = &(*link)->next;
	if (*link)
		*link = (*link)->next;
	free(pointer);
}

static void timer_mod(void *pointer, int64_t time, void *opaque)
{
	(void)opaque;
	((struct ob_slirp_timer *)pointer)->time = time;
}

/* pollfds_fill() gives all descriptors each time. */
static void note_fd(int fd, void *opaque)
{
	(void)fd;
	(void)opaque;
}

/* libslirp calls this on the thread of the loop only, where nobody needs to be woken. */
static void notify(void *opaque)
{
	(void)opaque;
}

static const struct ob_slirp_calls calls = {
	.send_packet = send_packet,
	.guest_error = guest_error,
	.clock_get_ns = clock_get_ns,
	.timer_new = timer_new,
	.timer_free = timer_free,
	.timer_mod = timer_mod,
	.register_poll_fd = note_fd,
	.unregister_poll_fd = note_fd,
	.notify = notify,
};

/* ---- the loop ------------------------------------------------------------- */

static const struct {
	int slirp;
	short host;
} events_table[] = {
	{ OB_SLIRP_POLL_IN, POLLIN },
	{ OB_SLIRP_POLL_OUT, POLLOUT },
	{ OB_SLIRP_POLL_PRI, POLLPRI },
	{ OB_SLIRP_POLL_ERR, POLLERR },
	{ OB_SLIRP_POLL_HUP, POLLHUP },
};

#define EVENTS (sizeof(events_table) / sizeof(events_table[0]))

/* Returns the index, or -1: no memory, and the socket waits for a later turn. */
static int add_fd(int fd, int events, void *opaque)
{
	struct ob_slirp *slirp = opaque;
	struct pollfd *entry;

	if (slirp->fd_count == slirp->fd_room) {
		int room = slirp->fd_room ? 2 * slirp->fd_room : 64;
		struct pollfd *grown = realloc(slirp->fds, (size_t)room * sizeof(*grown));

		if (!grown)
			return -1;
		slirp->fds = grown;
		slirp->fd_room = room;
	}
	entry = &slirp->fds[slirp->fd_count];
	*entry = (struct pollfd){ .fd = fd };
	for (size_t i = 0; i < EVENTS; i++)
		if (events & events_table[i].slirp)
			entry->events |= events_table[i].host;
	return slirp->fd_count++;
}

static int events_of(int index, void *opaque)
{
	struct ob_slirp *slirp = opaque;
	int events = 0;

	if (index < 0 || index >= slirp->fd_count)
		return 0;
	for (size_t i = 0; i < EVENTS; i++)
		if (slirp->fds[index].revents & events_table[i].host)
			events |= events_table[i].slirp;
	return events;
}

static int64_t now_msec(void)
{
	return clock_get_ns(NULL) / NSEC_PER_MSEC;
}

/* The time until the first timer or libslirp's own time-out, in milliseconds; -1: none. */
static int timeout_of(const struct ob_slirp *slirp, uint32_t timeout)
{
	int64_t least = timeout == UINT32_MAX ? -1 : (int64_t)timeout;

	for (const struct ob_slirp_timer *timer = slirp->timers; timer;
	     timer = timer->next) {
		int64_t left = timer->time - now_msec();

		if (timer->time < 0)
			continue;
		if (left < 0)
			left = 0;
		if (least < 0 || left < least)
			least = left;
	}
	return least > INT32_MAX ? INT32_MAX : (int)least;
}

/* A timer may be changed or freed by the function that it calls: the search begins again. */
void ob_slirp_run_timers(struct ob_slirp *slirp)
{
	struct ob_slirp_timer *timer = slirp->timers;
	int64_t now = now_msec();

	while (timer) {
		if (timer->time < 0 || timer->time > now) {
			timer = timer->next;
			continue;
		}
		timer->time = -1;
		timer->expired(timer->data);
		timer = slirp->timers;
	}
}

bool ob_slirp_prepare(struct ob_slirp *slirp, int fd, int *timeout)
{
	uint32_t own = UINT32_MAX;

	slirp->fd_count = 0;
	if (add_fd(fd, OB_SLIRP_POLL_IN, slirp) < 0)
		return false;
	slirp->library->pollfds_fill(slirp->slirp, &own, add_fd, slirp);
	*timeout = timeout_of(slirp, own);
	return true;
}

int ob_slirp_watch(struct ob_slirp *slirp, int fd)
{
	return add_fd(fd, OB_SLIRP_POLL_IN, slirp);
}

void ob_slirp_work(struct ob_slirp *slirp, bool is_failed)
{
	slirp->library->pollfds_poll(slirp->slirp, is_failed, events_of, slirp);
}

void ob_slirp_input(struct ob_slirp *slirp, const void *frame, size_t length)
{
	slirp->library->input(slirp->slirp, frame, (int)length);
}

/* ---- open and close ------------------------------------------------------- */

static void configure(struct ob_slirp_config *config, const struct ob_user_options *options)
{
	*config = (struct ob_slirp_config){
		.version = OB_SLIRP_CONFIG_VERSION,
		.in_enabled = true,
		.in6_enabled = !options->no_ipv6,
		.vprefix_len = 64,
		.if_mtu = options->mtu,
		.if_mru = options->mtu,
		.disable_host_loopback = options->no_host_loopback,
	};
	inet_pton(AF_INET, OB_USER_NETWORK, &config->vnetwork);
	inet_pton(AF_INET, OB_USER_NETMASK, &config->vnetmask);
	inet_pton(AF_INET, OB_USER_GATEWAY, &config->vhost);
	inet_pton(AF_INET, OB_USER_ADDRESS, &config->vdhcp_start);
	inet_pton(AF_INET, OB_USER_DNS, &config->vnameserver);
	inet_pton(AF_INET6, OB_USER_NETWORK6, &config->vprefix_addr6);
	inet_pton(AF_INET6, OB_USER_GATEWAY6, &config->vhost6);
	inet_pton(AF_INET6, OB_USER_DNS6, &config->vnameserver6);
}

/* libslirp finds an address that the kernel has given itself when it is needed. */
static int forward6(struct ob_slirp *slirp, const struct ob_user_forward *forward,
		    const struct in6_addr *to)
{
	int flags = OB_SLIRP_FORWARD_V6ONLY | (forward->udp ? OB_SLIRP_FORWARD_UDP : 0);
	struct sockaddr_in6 guest = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(forward->guest_port),
		.sin6_addr = *to,
	};
	struct sockaddr_storage host;
	socklen_t size = ob_user_forward_address(forward, AF_INET6, &host);

	if (!slirp->library->add_hostxfwd)
		return -EOPNOTSUPP;
	return slirp->library->add_hostxfwd(slirp->slirp, (struct sockaddr *)&host, size,
					    (struct sockaddr *)&guest, sizeof(guest), flags)
		? -errno : 0;
}

static int forward4(struct ob_slirp *slirp, const struct ob_user_forward *forward)
{
	struct in_addr any = { INADDR_ANY };
	struct in_addr host = forward->family == AF_INET ? forward->address.v4 : any;

	return slirp->library->add_hostfwd(slirp->slirp, forward->udp, host, forward->host_port,
					   any, forward->guest_port) ? -errno : 0;
}

/*
 * libslirp lets two connections wait to be accepted (libslirp: socket.c, tcp_listen()). The host
 * drops others, whose clients try again after a second. A second listen() changes the number. It
 * fails for sockets of UDP, which have no such queue.
 */
static int keep_forward(int fd, int events, void *opaque)
{
	struct ob_slirp *slirp = opaque;

	(void)events;
	for (int i = 0; i < slirp->forward_count; i++)
		if (slirp->forwards[i] == fd)
			return -1;
	listen(fd, SOMAXCONN);
	if (slirp->forward_count < OB_SLIRP_FORWARD_SOCKETS_MOST)
		slirp->forwards[slirp->forward_count++] = fd;
	return -1;
}

/* Before the first frame, libslirp has no other sockets than those of forwards. */
static void keep_forwards(struct ob_slirp *slirp)
{
	uint32_t timeout = UINT32_MAX;

	slirp->library->pollfds_fill(slirp->slirp, &timeout, keep_forward, slirp);
}

/*
 * libslirp listens at a free port of the loopback. It polls and accepts by the number of its
 * descriptor, which ob_slirp_take_socket() makes that of the given socket.
 */
static int forward_socket(struct ob_slirp *slirp, const struct ob_user_forward *forward,
			  const struct in6_addr *to)
{
	struct ob_user_forward own = { .guest_port = forward->guest_port, .family = AF_INET };
	int before = slirp->forward_count, domain = 0, result;
	socklen_t size = sizeof(domain);

	if (getsockopt(forward->socket, SOL_SOCKET, SO_DOMAIN, &domain, &size))
		return -errno;
	if (domain == AF_INET6) {
		own.family = AF_INET6;
		own.address.v6 = in6addr_loopback;
		result = forward6(slirp, &own, to);
	} else {
		own.address.v4.s_addr = htonl(INADDR_LOOPBACK);
		result = forward4(slirp, &own);
	}
	if (result)
		return result;
	keep_forwards(slirp);
	if (slirp->forward_count != before + 1)
		return -EOPNOTSUPP;
	slirp->sockets[slirp->socket_count].given = forward->socket;
	slirp->sockets[slirp->socket_count++].place = slirp->forwards[before];
	return 0;
}

void ob_slirp_take_socket(struct ob_slirp *slirp, unsigned int number)
{
	if (number >= (unsigned int)slirp->socket_count)
		return;
	/* The socket of libslirp is closed. */
	dup3(slirp->sockets[number].given, slirp->sockets[number].place, O_CLOEXEC);
}

static int add_forwards(struct ob_slirp *slirp, const struct ob_user_options *options,
			char *error, size_t size)
{
	const struct ob_user_forwards *forwards = &options->forwards;

	for (int i = 0; i < forwards->count; i++) {
		const struct ob_user_forward *forward = &forwards->list[i];
		int result = 0;

		/* Without an address, IPv4 is enough where the host or the library has no IPv6. */
		if (forward->socket)
			result = forward_socket(slirp, forward, &options->address6);
		else if (forward->family == AF_INET6)
			result = forward6(slirp, forward, &options->address6);
		else
			result = forward4(slirp, forward);
		if (!result && !forward->socket && forward->family == AF_UNSPEC)
			forward6(slirp, forward, &options->address6);
		keep_forwards(slirp);
		if (!result)
			continue;
		snprintf(error, size, "net user: libslirp cannot forward %s port %u of the host: "
			 "%s; choose another port, or install passt", forward->udp ? "UDP" : "TCP",
			 forward->host_port, strerrordesc_np(-result));
		return result;
	}
	return 0;
}

static int new_slirp(struct ob_slirp *slirp, const struct ob_user_options *options)
{
	struct ob_slirp_config config;

	configure(&config, options);
	pthread_mutex_lock(&lists_mutex);
	slirp->slirp = slirp->library->new(&config, &calls, slirp);
	pthread_mutex_unlock(&lists_mutex);
	return slirp->slirp ? 0 : -ENOMEM;
}

int ob_slirp_open(struct ob_slirp *slirp, const struct ob_user_options *options, char *error,
		  size_t size)
{
	int result = ob_slirp_load(&slirp->library);

	if (result == -ENOENT)
		return result;
	/* libslirp makes sockets by itself. */
	ob_posix_occupy_standard();
	if (!result)
		result = new_slirp(slirp, options);
	if (result) {
		snprintf(error, size, "net user: libslirp cannot start: %s",
			 strerrordesc_np(-result));
		return result;
	}
	return add_forwards(slirp, options, error, size);
}

void ob_slirp_close(struct ob_slirp *slirp)
{
	if (slirp->slirp) {
		pthread_mutex_lock(&lists_mutex);
		slirp->library->cleanup(slirp->slirp);
		pthread_mutex_unlock(&lists_mutex);
	}
	free(slirp->fds);
}

/* A thread of the parent may have had the mutex. */
void ob_slirp_forked(struct ob_slirp *slirp)
{
	for (int i = 0; i < slirp->forward_count; i++)
		raw_close(slirp->forwards[i]);
	pthread_mutex_init(&lists_mutex, NULL);
	free(slirp->fds);
}
