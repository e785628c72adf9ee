// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events of the host's sockets: an instance of epoll, and one thread that sleeps in it.
 *
 * Each watch is for one event (EPOLLONESHOT). So the thread sleeps while data flow to clients that
 * are busy, and wakes when a thread of the kernel waits. It puts events into a ring, from which the
 * kernel takes them, and raises the interrupt. Clients' threads that spin do not look here: they
 * took the processor from the peer, and answers came later.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "internal.h"
#include "raw.h"

/* Events that the host hands over at a time. */
#define EVENTS_MOST 64

/* In the place of a socket: the thread is to end. */
#define STOP (~0u)

/* How long the thread sleeps if the kernel takes no events, in milliseconds. */
#define FULL_PAUSE 1

#define IS_SAME(name) ((uint32_t)OB_SOCKET_##name == (uint32_t)EPOLL##name)
_Static_assert(IS_SAME(IN) && IS_SAME(PRI) && IS_SAME(OUT) && IS_SAME(ERR) && IS_SAME(HUP) &&
	       IS_SAME(RDHUP), "the host's numbers are the kernel's");

static int watch(struct ob_posix_sockets *sockets, int operation, int fd, uint32_t data,
		 uint32_t events)
{
	struct epoll_event event = { .events = events, .data.u32 = data };

	return epoll_ctl(sockets->epoll, operation, fd, &event) ? -errno : 0;
}

int ob_host_socket_watch(struct ob_host *host, uint32_t socket, uint32_t events)
{
	int error = watch(&host->sockets, EPOLL_CTL_MOD, (int)socket, socket,
			  events | EPOLLONESHOT);

	if (error == -ENOENT)
		error = watch(&host->sockets, EPOLL_CTL_ADD, (int)socket, socket,
			      events | EPOLLONESHOT);
	return error;
}

uint32_t ob_host_socket_take(struct ob_host *host, struct ob_socket_event events[], uint32_t count)
{
	struct ob_posix_sockets *sockets = &host->sockets;
	uint32_t taken = sockets->taken, all;
	uint32_t moved = __atomic_load_n(&sockets->moved, __ATOMIC_ACQUIRE);

	all = moved - taken < count ? moved - taken : count;
	for (uint32_t i = 0; i < all; i++)
		events[i] = sockets->ring[(taken + i) % OB_SOCKET_EVENTS];
	__atomic_store_n(&sockets->taken, taken + all, __ATOMIC_RELEASE);
	return all;
}

/* ---- the thread ----------------------------------------------------------- */

static uint32_t room(const struct ob_posix_sockets *sockets)
{
	return OB_SOCKET_EVENTS -
	       (sockets->moved - __atomic_load_n(&sockets->taken, __ATOMIC_ACQUIRE));
}

/* Moves events into the ring. Returns how many. */
static uint32_t put(struct ob_posix_sockets *sockets, const struct epoll_event events[], int count)
{
	uint32_t moved = sockets->moved;

	for (int i = 0; i < count; i++)
		if (events[i].data.u32 != STOP)
			sockets->ring[moved++ % OB_SOCKET_EVENTS] = (struct ob_socket_event){
				.socket = events[i].data.u32, .events = events[i].events,
			};
	count = (int)(moved - sockets->moved);
	__atomic_store_n(&sockets->moved, moved, __ATOMIC_RELEASE);
	return (uint32_t)count;
}

static void work(void *argument)
{
	struct ob_host *host = argument;
	struct ob_posix_sockets *sockets = &host->sockets;
	struct epoll_event events[EVENTS_MOST];

	while (!__atomic_load_n(&sockets->stopping, __ATOMIC_ACQUIRE)) {
		uint32_t free = room(sockets);
		int most = free < EVENTS_MOST ? (int)free : EVENTS_MOST;

		if (!free)
			raw_poll(NULL, 0, FULL_PAUSE);
		else if (put(sockets, events, raw_epoll_wait(sockets->epoll, events, most, -1)))
			host->upcalls->interrupt(OB_INTERRUPT_SOCKETS);
	}
}

static void close_descriptors(struct ob_posix_sockets *sockets)
{
	if (sockets->epoll >= 0)
		raw_close(sockets->epoll);
	if (sockets->stop >= 0)
		raw_close(sockets->stop);
	sockets->begun = false;
}

/* In the middle of the descriptors that the process may have. */
static int first_socket(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	return (int)((limit.rlim_cur < OB_SOCKETS_MOST ? limit.rlim_cur : OB_SOCKETS_MOST) / 2);
}

static int start(struct ob_host *host)
{
	struct ob_posix_sockets *sockets = &host->sockets;
	int error;

	if (sockets->epoll < 0 || sockets->stop < 0)
		return -errno;
	error = watch(sockets, EPOLL_CTL_ADD, sockets->stop, STOP, EPOLLIN);
	if (!error)
		error = ob_host_thread_create(host, work, host, "outboard-socket",
					      &sockets->thread);
	return error;
}

int ob_host_sockets_begin(struct ob_host *host)
{
	struct ob_posix_sockets *sockets = &host->sockets;
	int error;

	if (sockets->begun)
		return 0;
	sockets->moved = sockets->taken = 0;
	sockets->stopping = false;
	sockets->first = first_socket();
	sockets->epoll = raw_epoll();
	sockets->stop = sockets->epoll < 0 ? -1 : raw_eventfd();
	error = start(host);
	if (error) {
		close_descriptors(sockets);
		return error;
	}
	sockets->begun = true;
	return 0;
}

void ob_host_sockets_end(struct ob_host *host)
{
	struct ob_posix_sockets *sockets = &host->sockets;
	uint64_t one = 1;

	if (!sockets->begun)
		return;
	__atomic_store_n(&sockets->stopping, true, __ATOMIC_RELEASE);
	/* It fails only if the counter is full: then the descriptor is readable, too. */
	(void)!raw_write(sockets->stop, &one, sizeof(one));
	if (!ob_platform_thread_join(host, sockets->thread)) {
		ob_posix_leave_behind(host);
		return;
	}
	ob_posix_sockets_close(host);
	close_descriptors(sockets);
}

/* The thread is the parent's. */
void ob_posix_sockets_forked(struct ob_host *host)
{
	if (!host->sockets.begun)
		return;
	ob_posix_sockets_close(host);
	close_descriptors(&host->sockets);
}
