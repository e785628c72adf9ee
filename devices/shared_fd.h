/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Descriptors that somebody else holds, too. O_NONBLOCK belongs to what is open, not to a
 * descriptor: the other holder can clear it at any time, and any later read or write may block. So
 * no call relies on that flag:
 *
 *   descriptor			other holder	how it is used
 *   kick, call of a front-end	front-end	reads: ob_shared_read(); writes: net/bell.h
 *   kick, call of a back-end	back-end	the same (vhost_user.c)
 *   "tap:fd=N"			the program	ob_shared_read(), ob_shared_write()
 *   "pcap=fd:N"		the program	ob_shared_write(); a FIFO is opened again
 *   sockets of vhost-user, of	nobody: the	MSG_DONTWAIT after a poll with a time-out, or
 *   passt and of the opener	peer has its	shutdown() by the thread that joins; the opener's
 *				own end		process ends with the port's
 *   memory of hubs' ports	its owner	sealed files: mapped, never read or written
 *   images as "/dev/fd/N"	the program	regular files and block devices ignore the flag
 *   standard error, a log file	everybody	log.c: its own ways, also for a panic
 *
 * What only this process holds is opened with O_NONBLOCK where it could block: eventfds that wake
 * threads, "tap:NAME", captures by name, the log's file.
 *
 * Eventfds can be read without blocking since Linux 5.8, taps since 6.4, pipes since 6.5. On an
 * older host the flag is set again before each call, which leaves the other holder a moment.
 */
#ifndef OUTBOARD_DEVICES_SHARED_FD_H
#define OUTBOARD_DEVICES_SHARED_FD_H

#include <errno.h>
#include <stdbool.h>

#include "raw.h"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

static inline void ob_shared_set_nonblocking(int fd)
{
	int flags = raw_fcntl(fd, F_GETFL, 0);

	if (flags >= 0 && !(flags & O_NONBLOCK))
		raw_fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Whether a call had this result because the host is too old for it. The flag is set then. */
static inline bool ob_shared_is_unknown(int fd, ssize_t result)
{
	if (result >= 0 || errno != EOPNOTSUPP)
		return false;
	ob_shared_set_nonblocking(fd);
	return true;
}

/* As readv(). -1 and EAGAIN instead of blocking. */
static inline ssize_t ob_shared_read(int fd, const struct iovec *pieces, int count)
{
	ssize_t got = raw_preadv2(fd, pieces, count, -1, RWF_NOWAIT);

	return ob_shared_is_unknown(fd, got) ? raw_readv(fd, pieces, count) : got;
}

/* As writev(). -1 and EAGAIN instead of blocking. Not for eventfds: net/bell.h. */
static inline ssize_t ob_shared_write(int fd, const struct iovec *pieces, int count)
{
	ssize_t done = raw_pwritev2(fd, pieces, count, -1, RWF_NOWAIT);

	return ob_shared_is_unknown(fd, done) ? raw_writev(fd, pieces, count) : done;
}

/* Takes the counter of an eventfd, if it has one. */
static inline void ob_shared_event_clear(int fd)
{
	uint64_t count;
	struct iovec piece = { &count, sizeof(count) };

	(void)!ob_shared_read(fd, &piece, 1);
}

#endif
