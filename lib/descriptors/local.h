/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions behind outboard/sockets.h, for programs of a POSIX host.
 *
 *   start.c		boots the kernel for the first socket
 *   descriptors.c	the table of descriptors; functions that make, copy and close them
 *   transfer.c		functions that move data
 *   ready.c		poll, select, epoll
 *   mixed.c		waits for the kernel and the host at once
 *   handlers.c		signal handlers
 *   drain.c		waits at the program's end until its data are sent
 *
 * A descriptor of the kernel has a number of the host: that of an epoll instance without members,
 * which reserves the number and can neither be read nor written. A table has the kernel's number
 * for it.
 */
#ifndef OUTBOARD_LIB_DESCRIPTORS_LOCAL_H
#define OUTBOARD_LIB_DESCRIPTORS_LOCAL_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#define OUTBOARD_SOCKETS_WITHOUT_MACROS
#include <outboard/sockets.h>

/* The highest descriptor of the host, and one: Linux's limit. */
#define OB_LOCAL_MOST (1 << 20)

/* table.c: the kernel's number of a descriptor; -1: the descriptor is the host's. */
int ob_local_kernel_fd(int fd);
/* `kernel_fd` -1: none. Returns what the descriptor had before, or -1. */
int ob_local_set_kernel_fd(int fd, int kernel_fd);
/* Tells the peers of all descriptors of the kernel that no more data come. */
void ob_local_shut_down_all(void);
/* Gives a descriptor of the kernel a number of the host. -1 passes on the kernel's error. */
int ob_local_publish(long kernel_fd, bool close_on_exec);

/* start.c: boots the kernel, once. 0, or -1 and errno. */
int ob_local_start(void);


/* drain.c: for atexit(). */
void ob_local_drain(void);

/*
 * handlers.c: marks a call of the kernel that may block. A handler of a signal ends the call,
 * unless the call is one that restarts, and the handler wants that.
 */
enum ob_local_call { OB_LOCAL_OUTSIDE, OB_LOCAL_RESTARTS, OB_LOCAL_ENDS };
void ob_local_enter(enum ob_local_call call);
void ob_local_leave(void);

/* The result of a call that may block; its error is kept. */
#define OB_LOCAL_BLOCKING(kind, call)			\
	({						\
		__typeof__(call) result_;		\
		ob_local_enter(kind);			\
		result_ = (call);			\
		ob_local_leave();			\
		result_;				\
	})

/*
 * mixed.c: polls descriptors of the kernel, by the kernel's numbers, and of the host, if any.
 * `end`: a time of ob_local_now(), or OB_LOCAL_NEVER. As poll().
 */
int ob_local_poll_both(struct pollfd *kernel, int kernel_count, struct pollfd *host,
		       int host_count, int64_t end);

/* Nanoseconds of the monotonic clock. */
#define OB_LOCAL_NEVER INT64_MAX
int64_t ob_local_now(void);

/* The time left until `end`, for ppoll. NULL: for ever. */
const struct timespec *ob_local_left(int64_t end, struct timespec *left);

#endif
