// SPDX-License-Identifier: GPL-2.0-only
/* poll, select and epoll, for descriptors of the kernel and of the host. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <outboard/syscalls.h>

#include "local.h"

static int64_t end_after(int64_t nanoseconds)
{
	int64_t now = ob_local_now();

	return nanoseconds > OB_LOCAL_NEVER - now ? OB_LOCAL_NEVER : now + nanoseconds;
}

static int64_t end_after_milliseconds(int milliseconds)
{
	if (milliseconds < 0)
		return OB_LOCAL_NEVER;
	return milliseconds ? end_after(milliseconds * 1000000ll) : 0;
}

/* False: the time is no time. */
static bool end_after_time(const struct timespec *time, int64_t *end)
{
	*end = OB_LOCAL_NEVER;
	if (!time)
		return true;
	if (time->tv_sec < 0 || time->tv_nsec < 0 || time->tv_nsec >= 1000000000) {
		errno = EINVAL;
		return false;
	}
	if (time->tv_sec < INT64_MAX / 1000000000 - 1)
		*end = end_after((int64_t)time->tv_sec * 1000000000 + time->tv_nsec);
	return true;
}

/*
 * A signal that arrives once the mask is changed ends the wait, even if the wait has not begun: the
 * thread counts as waiting from before.
 */
static void begin_wait(const sigset_t *signals, sigset_t *before)
{
	ob_local_enter(OB_LOCAL_ENDS);
	if (signals)
		pthread_sigmask(SIG_SETMASK, signals, before);
}

static void end_wait(const sigset_t *signals, const sigset_t *before)
{
	int error = errno;

	if (signals)
		pthread_sigmask(SIG_SETMASK, before, NULL);
	ob_local_leave();
	errno = error;
}

/* ---- poll ----------------------------------------------------------------------- */

/* Sorts descriptors: those of the kernel from the front of `sorted`, the others from its end. */
static int sort(const struct pollfd *descriptors, int count, struct pollfd *sorted)
{
	int kernel_count = 0, host = count;

	for (int i = 0; i < count; i++) {
		struct pollfd each = descriptors[i];
		int kernel_fd = ob_local_kernel_fd(each.fd);

		each.revents = 0;
		if (kernel_fd < 0) {
			sorted[--host] = each;
			continue;
		}
		each.fd = kernel_fd;
		sorted[kernel_count++] = each;
	}
	return kernel_count;
}

static void copy_results(struct pollfd *descriptors, int count, const struct pollfd *sorted)
{
	int kernel = 0, host = count;

	for (int i = 0; i < count; i++)
		descriptors[i].revents = ob_local_kernel_fd(descriptors[i].fd) < 0
						 ? sorted[--host].revents
						 : sorted[kernel++].revents;
}

/* Descriptors of one call that need no memory of the heap. */
#define FEW 64

static int poll_sorted(struct pollfd *sorted, int kernel_count, int host_count, int64_t end,
		       const sigset_t *signals)
{
	struct timespec left;
	sigset_t before;
	int result;

	if (!kernel_count)
		return ppoll(sorted, (nfds_t)host_count, ob_local_left(end, &left), signals);
	begin_wait(signals, &before);
	result = ob_local_poll_both(sorted, kernel_count, sorted + kernel_count, host_count, end);
	end_wait(signals, &before);
	return result;
}

static int poll_until(struct pollfd *descriptors, nfds_t count, int64_t end,
		      const sigset_t *signals)
{
	struct pollfd few[FEW], *sorted = few;
	int kernel_count, result;

	if (count > OB_LOCAL_MOST) {
		errno = EINVAL;
		return -1;
	}
	if (count > FEW)
		sorted = malloc(sizeof(*sorted) * count);
	if (!sorted) {
		errno = ENOMEM;
		return -1;
	}
	kernel_count = sort(descriptors, (int)count, sorted);
	result = poll_sorted(sorted, kernel_count, (int)count - kernel_count, end, signals);
	if (result >= 0)
		copy_results(descriptors, (int)count, sorted);
	if (sorted != few)
		free(sorted);
	return result;
}

int ob_local_poll(struct pollfd *descriptors, nfds_t count, int milliseconds)
{
	return poll_until(descriptors, count, end_after_milliseconds(milliseconds), NULL);
}

int ob_local_ppoll(struct pollfd *descriptors, nfds_t count, const struct timespec *timeout,
		   const sigset_t *signals)
{
	int64_t end;

	return end_after_time(timeout, &end) ? poll_until(descriptors, count, end, signals) : -1;
}

/* ---- select --------------------------------------------------------------------- */

enum { READABLE, WRITABLE, EXCEPTIONAL, SETS };

/* As Linux translates them. */
static const short set_events[SETS] = { POLLIN, POLLOUT, POLLPRI };
static const short set_results[SETS] = {
	POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR,
	POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR,
	POLLPRI,
};

static int list_members(int count, fd_set *const sets[SETS], struct pollfd *list)
{
	int length = 0;

	for (int fd = 0; fd < count; fd++) {
		short events = 0;

		for (int set = 0; set < SETS; set++)
			if (sets[set] && FD_ISSET(fd, sets[set]))
				events |= set_events[set];
		if (events)
			list[length++] = (struct pollfd){ .fd = fd, .events = events };
	}
	return length;
}

static bool is_member_ready(const struct pollfd *member, int set)
{
	return member->events & set_events[set] && member->revents & set_results[set];
}

/* poll() also reports what select() does not wait for. Such a member is not waited for again. */
static int count_results(struct pollfd *list, int length)
{
	int ready = 0;

	for (int i = 0; i < length; i++) {
		int before = ready;

		for (int set = 0; set < SETS; set++)
			ready += is_member_ready(&list[i], set);
		if (list[i].revents && ready == before)
			list[i].fd = -1;
	}
	return ready;
}

static bool has_bad_member(const struct pollfd *list, int length)
{
	for (int i = 0; i < length; i++)
		if (list[i].revents & POLLNVAL)
			return true;
	return false;
}

static void store_sets(int count, fd_set *const sets[SETS], const struct pollfd *list, int length)
{
	for (int set = 0; set < SETS; set++) {
		for (int fd = 0; sets[set] && fd < count; fd++)
			FD_CLR(fd, sets[set]);
		for (int i = 0; sets[set] && i < length; i++)
			if (list[i].fd >= 0 && is_member_ready(&list[i], set))
				FD_SET(list[i].fd, sets[set]);
	}
}

static int select_until(int count, fd_set *const sets[SETS], int64_t end, const sigset_t *signals)
{
	struct pollfd list[FD_SETSIZE];
	int length, result, ready;

	if (count < 0 || count > FD_SETSIZE) {
		errno = EINVAL;
		return -1;
	}
	length = list_members(count, sets, list);
	do {
		result = poll_until(list, (nfds_t)length, end, signals);
		if (result < 0)
			return -1;
		if (has_bad_member(list, length)) {
			errno = EBADF;
			return -1;
		}
		ready = count_results(list, length);
	} while (result && !ready);
	store_sets(count, sets, list, length);
	return ready;
}

int ob_local_select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
		    struct timeval *timeout)
{
	fd_set *const sets[SETS] = { readable, writable, exceptional };
	struct timespec time, left;
	int64_t end;
	int result;

	if (timeout)
		time = (struct timespec){ timeout->tv_sec, timeout->tv_usec * 1000 };
	if (!end_after_time(timeout ? &time : NULL, &end))
		return -1;
	result = select_until(count, sets, end, NULL);
	/* Linux stores what is left, and programs rely on that. */
	if (timeout && ob_local_left(end, &left))
		*timeout = (struct timeval){ left.tv_sec, left.tv_nsec / 1000 };
	return result;
}

int ob_local_pselect(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
		     const struct timespec *timeout, const sigset_t *signals)
{
	fd_set *const sets[SETS] = { readable, writable, exceptional };
	int64_t end;

	return end_after_time(timeout, &end) ? select_until(count, sets, end, signals) : -1;
}

/* ---- epoll ---------------------------------------------------------------------- */

/*
 * An instance of the program is two: one of the host, whose number it has, and one of the kernel.
 * This counts the members of the first. A member that is closed stays counted, which costs time
 * only. Members are atomic.
 */
static int host_members[OB_LOCAL_MOST];

int ob_local_epoll_create1(int flags)
{
	int fd;

	if (ob_local_start())
		return -1;
	fd = ob_local_publish(ob_sys_epoll_create1(flags), flags & EPOLL_CLOEXEC);
	if (fd >= 0)
		__atomic_store_n(&host_members[fd], 0, __ATOMIC_RELEASE);
	return fd;
}

int ob_local_epoll_create(int size)
{
	if (size > 0)
		return ob_local_epoll_create1(0);
	errno = EINVAL;
	return -1;
}

int ob_local_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
	int kernel_epoll = ob_local_kernel_fd(epoll), kernel_fd = ob_local_kernel_fd(fd), result;

	if (kernel_fd >= 0)
		return (int)ob_sys_epoll_ctl(kernel_epoll, operation, kernel_fd, event);
	result = epoll_ctl(epoll, operation, fd, event);
	if (!result && kernel_epoll >= 0 && operation != EPOLL_CTL_MOD)
		__atomic_add_fetch(&host_members[epoll], operation == EPOLL_CTL_ADD ? 1 : -1,
				   __ATOMIC_ACQ_REL);
	return result;
}

/* Takes the events of both instances that are there now. */
static int take_events(int epoll, int kernel_epoll, struct epoll_event *events, int most)
{
	int of_kernel = (int)ob_sys_epoll_wait(kernel_epoll, events, most, 0), of_host;

	if (of_kernel < 0 || of_kernel == most)
		return of_kernel;
	of_host = epoll_wait(epoll, events + of_kernel, most - of_kernel, 0);
	return of_host < 0 ? (of_kernel ? of_kernel : -1) : of_kernel + of_host;
}

static int wait_for_events(int epoll, int kernel_epoll, struct epoll_event *events, int most,
			   int64_t end)
{
	struct pollfd kernel = { .fd = kernel_epoll, .events = POLLIN };
	struct pollfd host = { .fd = epoll, .events = POLLIN };

	for (;;) {
		int result = take_events(epoll, kernel_epoll, events, most);

		if (result)
			return result;
		/* Another thread may have taken the events. */
		result = ob_local_poll_both(&kernel, 1, &host, 1, end);
		if (result <= 0)
			return result;
	}
}

int ob_local_epoll_pwait(int epoll, struct epoll_event *events, int most, int milliseconds,
			 const sigset_t *signals)
{
	int kernel_epoll = ob_local_kernel_fd(epoll), result;
	sigset_t before;

	if (kernel_epoll < 0)
		return epoll_pwait(epoll, events, most, milliseconds, signals);
	begin_wait(signals, &before);
	if (most <= 0 || !__atomic_load_n(&host_members[epoll], __ATOMIC_ACQUIRE))
		result = (int)ob_sys_epoll_wait(kernel_epoll, events, most, milliseconds);
	else
		result = wait_for_events(epoll, kernel_epoll, events, most,
					 end_after_milliseconds(milliseconds));
	end_wait(signals, &before);
	return result;
}

int ob_local_epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds)
{
	return ob_local_epoll_pwait(epoll, events, most, milliseconds, NULL);
}
