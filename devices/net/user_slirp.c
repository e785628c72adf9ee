// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rootless NAT by libslirp, in this process.
 *
 * libslirp belongs to one thread, which runs its loop: frames of the kernel, sockets of the host,
 * timers. The kernel's thread puts frames into a ring, each behind its length, and wakes the loop
 * by an eventfd if the loop is in poll(). A frame that does not fit is dropped. If the kernel has
 * no room for a frame of libslirp, the loop waits.
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
#include "deliver.h"
#include "internal.h"
#include "pieces.h"
#include "raw.h"
#include "report.h"
#include "ring.h"
#include "slirp_api.h"
#include "user.h"

#define NSEC_PER_MSEC 1000000ll

/* Frames of the kernel in one turn of the loop. */
#define TURN_FRAMES 64

/* A port without an address has a socket for IPv4 and one for IPv6. */
#define FORWARD_SOCKETS_MOST (2 * OB_USER_FORWARDS_MOST)

struct timer {
	struct timer *next;
	void (*expired)(void *data);
	void *data;
	int64_t time;		/* in milliseconds; -1: not set */
};

struct slirp {
	struct ob_net_backend backend;
	struct ob_host *host;
	struct ob_net_port *port;
	const struct ob_slirp_library *library;
	struct Slirp *slirp;
	uint64_t thread;
	struct ob_net_ring frames;	/* of the kernel */
	int event;
	bool sleeping;			/* the loop is in poll(), or about to be; atomic */
	bool ending;			/* atomic */
	/* Sockets of libslirp that wait for connections and packets from the host. */
	int forwards[FORWARD_SOCKETS_MOST];
	int forward_count;
	/* Of the loop. */
	struct timer *timers;
	struct pollfd *fds;
	int fd_count, fd_room;
	bool is_stopped;		/* the kernel takes no more frames */
	unsigned char frame[OB_NET_ETHERNET_MOST];
};

static pthread_mutex_t lists_mutex = PTHREAD_MUTEX_INITIALIZER;

/* ---- from the kernel ------------------------------------------------------ */

static int transmit(struct ob_net_backend *backend, unsigned int queue,
		    const struct iovec *pieces, int count)
{
	struct slirp *slirp = (struct slirp *)backend;
	struct iovec parts[1 + OB_NET_PIECES_MOST];
	uint32_t length;

	(void)queue;
	if (count > OB_NET_PIECES_MOST)
		return -EMSGSIZE;
	count = ob_net_pieces_skip(pieces, count, OB_NET_HEADER_BYTES, parts + 1);
	length = (uint32_t)ob_net_pieces_length(parts + 1, count);
	if (length < OB_NET_ETHERNET_BYTES || length > OB_NET_ETHERNET_MOST)
		return -EMSGSIZE;
	parts[0] = (struct iovec){ &length, sizeof(length) };
	return ob_net_ring_put(&slirp->frames, parts, count + 1) ? 0 : -ENOBUFS;
}

static void wake(struct slirp *slirp)
{
	const uint64_t one = 1;

	raw_write(slirp->event, &one, sizeof(one));
}

static void transmit_end(struct ob_net_backend *backend, unsigned int queue)
{
	struct slirp *slirp = (struct slirp *)backend;

	(void)queue;
	/* Either this sees that the loop sleeps, or the loop sees the frames. */
	if (__atomic_load_n(&slirp->sleeping, __ATOMIC_SEQ_CST) &&
	    __atomic_exchange_n(&slirp->sleeping, false, __ATOMIC_SEQ_CST))
		wake(slirp);
}

/* ---- calls from libslirp, all on the thread of the loop ------------------- */

static ssize_t send_packet(const void *frame, size_t length, void *opaque)
{
	struct slirp *slirp = opaque;

	if (!slirp->is_stopped)
		slirp->is_stopped = !ob_net_deliver(slirp->port, slirp->backend.mtu, frame, length);
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
	struct slirp *slirp = opaque;
	struct timer *timer = calloc(1, sizeof(*timer));

	/* libslirp expects that memory never ends: GLib ends the program then. */
	if (!timer)
		abort();
	*timer = (struct timer){ slirp->timers, expired, data, -1 };
	slirp->timers = timer;
	return timer;
}

static void timer_free(void *pointer, void *opaque)
{
	struct slirp *slirp = opaque;
	struct timer **link = &slirp->timers;

	while (*link && *link != pointer)
		link = &(*link)->next;
	if (*link)
		*link = (*link)->next;
	free(pointer);
}

static void timer_mod(void *pointer, int64_t time, void *opaque)
{
	(void)opaque;
	((struct timer *)pointer)->time = time;
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
	struct slirp *slirp = opaque;
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
	struct slirp *slirp = opaque;
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
static int timeout_of(const struct slirp *slirp, uint32_t timeout)
{
	int64_t least = timeout == UINT32_MAX ? -1 : (int64_t)timeout;

	for (const struct timer *timer = slirp->timers; timer; timer = timer->next) {
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
static void run_timers(struct slirp *slirp)
{
	struct timer *timer = slirp->timers;
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

/* Passes frames of the kernel to libslirp. */
static void take_frames(struct slirp *slirp)
{
	for (int i = 0; i < TURN_FRAMES && !ob_net_ring_is_empty(&slirp->frames); i++) {
		uint32_t length;

		ob_net_ring_copy(&slirp->frames, &length, sizeof(length));
		ob_net_ring_copy(&slirp->frames, slirp->frame, length);
		slirp->library->input(slirp->slirp, slirp->frame, (int)length);
	}
}

static bool is_ending(const struct slirp *slirp)
{
	return slirp->is_stopped || __atomic_load_n(&slirp->ending, __ATOMIC_SEQ_CST);
}

/* Sleeps for a socket, a timer or a frame. Returns poll()'s result. */
static int sleep_for_events(struct slirp *slirp, int timeout)
{
	uint64_t events;
	int result;

	__atomic_store_n(&slirp->sleeping, true, __ATOMIC_SEQ_CST);
	if (!ob_net_ring_is_empty(&slirp->frames) || is_ending(slirp))
		timeout = 0;
	result = raw_poll(slirp->fds, (nfds_t)slirp->fd_count, timeout);
	__atomic_store_n(&slirp->sleeping, false, __ATOMIC_SEQ_CST);
	/* The eventfd is the first one. */
	if (result > 0 && slirp->fds[0].revents)
		raw_read(slirp->event, &events, sizeof(events));
	return result;
}

static void loop(void *pointer)
{
	struct slirp *slirp = pointer;

	while (!is_ending(slirp)) {
		uint32_t timeout = UINT32_MAX;
		int result;

		slirp->fd_count = 0;
		if (add_fd(slirp->event, OB_SLIRP_POLL_IN, slirp) < 0) {
			ob_net_warn(slirp->host, "net user: libslirp has no memory; the interface "
				    "has no link, add it again to have one");
			ob_net_port_link(slirp->port, false);
			break;
		}
		slirp->library->pollfds_fill(slirp->slirp, &timeout, add_fd, slirp);
		result = sleep_for_events(slirp, timeout_of(slirp, timeout));
		slirp->library->pollfds_poll(slirp->slirp, result < 0, events_of, slirp);
		take_frames(slirp);
		run_timers(slirp);
		ob_net_receive_flush(slirp->port, 0);
	}
}

/* ---- open and close ------------------------------------------------------- */

static void free_ours(struct slirp *slirp)
{
	if (slirp->event >= 0)
		raw_close(slirp->event);
	ob_net_ring_free(&slirp->frames);
	free(slirp->fds);
	free(slirp);
}

static void free_slirp(struct slirp *slirp)
{
	if (slirp->slirp) {
		pthread_mutex_lock(&lists_mutex);
		slirp->library->cleanup(slirp->slirp);
		pthread_mutex_unlock(&lists_mutex);
	}
	free_ours(slirp);
}

static void close_slirp(struct ob_net_backend *backend)
{
	struct slirp *slirp = (struct slirp *)backend;

	__atomic_store_n(&slirp->ending, true, __ATOMIC_SEQ_CST);
	ob_net_port_stop(slirp->port);
	wake(slirp);
	ob_host_thread_join(slirp->host, slirp->thread);
	free_slirp(slirp);
}

/*
 * The forwarded ports are free once the parent closes them. Other sockets and the memory of
 * libslirp stay: its lists may be in the middle of a change by the parent's thread. The sockets are
 * closed on exec. A thread of the parent may have had the mutex.
 */
static void forked(struct ob_net_backend *backend)
{
	struct slirp *slirp = (struct slirp *)backend;

	for (int i = 0; i < slirp->forward_count; i++)
		raw_close(slirp->forwards[i]);
	pthread_mutex_init(&lists_mutex, NULL);
	free_ours(slirp);
}

static const struct ob_net_backend_operations operations = {
	.transmit = transmit,
	.transmit_end = transmit_end,
	.close = close_slirp,
	.forked = forked,
};

static void configure(struct ob_slirp_config *config, uint32_t mtu)
{
	*config = (struct ob_slirp_config){
		.version = OB_SLIRP_CONFIG_VERSION,
		.in_enabled = true,
		.in6_enabled = true,
		.vprefix_len = 64,
		.if_mtu = mtu,
		.if_mru = mtu,
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

/* IPv6: to the address that the kernel has given itself; libslirp finds it when it is needed. */
static int forward6(struct slirp *slirp, const struct ob_user_forward *forward)
{
	int flags = OB_SLIRP_FORWARD_V6ONLY | (forward->udp ? OB_SLIRP_FORWARD_UDP : 0);
	struct sockaddr_in6 guest = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(forward->guest_port),
	};
	struct sockaddr_storage host;
	socklen_t size = ob_user_forward_address(forward, AF_INET6, &host);

	if (!slirp->library->add_hostxfwd)
		return -EOPNOTSUPP;
	return slirp->library->add_hostxfwd(slirp->slirp, (struct sockaddr *)&host, size,
					    (struct sockaddr *)&guest, sizeof(guest), flags)
		? -errno : 0;
}

static int forward4(struct slirp *slirp, const struct ob_user_forward *forward)
{
	struct in_addr any = { INADDR_ANY };
	struct in_addr host = forward->family == AF_INET ? forward->address.v4 : any;

	return slirp->library->add_hostfwd(slirp->slirp, forward->udp, host, forward->host_port,
					   any, forward->guest_port) ? -errno : 0;
}

static int add_forwards(struct slirp *slirp, const struct ob_user_forwards *forwards, char *error,
			size_t size)
{
	for (int i = 0; i < forwards->count; i++) {
		const struct ob_user_forward *forward = &forwards->list[i];
		int result = 0;

		/* Without an address, IPv4 is enough where the host or the library has no IPv6. */
		if (forward->family == AF_INET6)
			result = forward6(slirp, forward);
		else
			result = forward4(slirp, forward);
		if (!result && forward->family == AF_UNSPEC)
			forward6(slirp, forward);
		if (!result)
			continue;
		snprintf(error, size, "net user: libslirp cannot forward %s port %u of the host: "
			 "%s; choose another port, or install passt", forward->udp ? "UDP" : "TCP",
			 forward->host_port, strerrordesc_np(-result));
		return result;
	}
	return 0;
}

static int keep_forward(int fd, int events, void *opaque)
{
	struct slirp *slirp = opaque;

	(void)events;
	if (slirp->forward_count < FORWARD_SOCKETS_MOST)
		slirp->forwards[slirp->forward_count++] = fd;
	return -1;
}

/* Before the first frame, libslirp has no other sockets than those of forwards. */
static void keep_forwards(struct slirp *slirp)
{
	uint32_t timeout = UINT32_MAX;

	slirp->library->pollfds_fill(slirp->slirp, &timeout, keep_forward, slirp);
}

/* Returns an error. `slirp` is zeros but for its library. */
static int fill_slirp(struct slirp *slirp, struct ob_host *host, struct ob_net_port *port,
		      const struct ob_user_options *options)
{
	struct ob_slirp_config config;

	slirp->backend = (struct ob_net_backend){ &operations, 0, options->mtu, 1 };
	slirp->host = host;
	slirp->port = port;
	slirp->event = raw_eventfd();
	if (slirp->event < 0)
		return -errno;
	if (ob_net_ring_init(&slirp->frames, OB_USER_BACKLOG_BYTES))
		return -ENOMEM;
	configure(&config, options->mtu);
	pthread_mutex_lock(&lists_mutex);
	slirp->slirp = slirp->library->new(&config, &calls, slirp);
	pthread_mutex_unlock(&lists_mutex);
	return slirp->slirp ? 0 : -ENOMEM;
}

/* Returns an error. */
static int new_slirp(struct ob_host *host, struct ob_net_port *port,
		     const struct ob_user_options *options,
		     const struct ob_slirp_library *library, struct slirp **made)
{
	struct slirp *slirp = aligned_alloc(64, (sizeof(*slirp) + 63) / 64 * 64);
	int error;

	if (!slirp)
		return -ENOMEM;
	memset(slirp, 0, sizeof(*slirp));
	slirp->library = library;
	error = fill_slirp(slirp, host, port, options);
	if (error)
		free_slirp(slirp);
	else
		*made = slirp;
	return error;
}

int ob_user_slirp_open(struct ob_host *host, struct ob_net_port *port,
		       const struct ob_user_options *options, struct ob_net_backend **backend,
		       char *error, size_t error_size)
{
	const struct ob_slirp_library *library;
	struct slirp *slirp;
	int result = ob_slirp_load(&library);

	if (result == -ENOENT)
		return result;
	/* libslirp makes sockets by itself. */
	ob_posix_occupy_standard();
	if (!result)
		result = new_slirp(host, port, options, library, &slirp);
	if (result) {
		snprintf(error, error_size, "net user: libslirp cannot start: %s",
			 strerrordesc_np(-result));
		return result;
	}
	result = add_forwards(slirp, &options->forwards, error, error_size);
	if (!result) {
		keep_forwards(slirp);
		result = ob_host_thread_create(host, loop, slirp, "outboard-slirp", &slirp->thread);
		if (result)
			snprintf(error, error_size, "net user: the host has no more threads");
	}
	if (result) {
		free_slirp(slirp);
		return result;
	}
	*backend = &slirp->backend;
	return 0;
}
