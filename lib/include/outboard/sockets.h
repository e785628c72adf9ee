/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Turns a sockets program into a local client of a kernel in its own process:
 *
 *   cc -include outboard/sockets.h program.c -loutboard
 *
 * The program's internet, packet and netlink sockets are the kernel's; its files, pipes and local
 * (AF_UNIX) sockets stay the host's. Both have descriptors of one space: the C library's rules for
 * numbers, dup2(), limits and FD_SETSIZE hold. poll(), select() and epoll accept any mixture.
 *
 * The first socket boots the default kernel, unless the program has booted it. The environment's
 * OUTBOARD_NET has descriptions of interfaces for ob_net_add(), separated by spaces, as in
 * OUTBOARD_NET='tap:tap0,ip=10.0.0.2/24 user'. Without it there is loopback only.
 *
 * Limits: docs/net.md. C only.
 */
#ifndef OUTBOARD_SOCKETS_H
#define OUTBOARD_SOCKETS_H

#ifdef __cplusplus
#error "outboard/sockets.h renames functions by macros, which C++ programs do not survive"
#endif

#if defined(__GLIBC__) && !defined(__USE_GNU)
#error "include outboard/sockets.h before all other headers, as cc -include does"
#endif

/*
 * Nothing that the program defines later changes what the headers below declare, so they declare
 * everything. The program may define the same macros as if nothing had been included.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#define OUTBOARD_SOCKETS_ALL
#endif

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifdef OUTBOARD_SOCKETS_ALL
#undef OUTBOARD_SOCKETS_ALL
#undef _GNU_SOURCE
#undef _DEFAULT_SOURCE
#undef _ATFILE_SOURCE
#undef _ISOC95_SOURCE
#undef _ISOC99_SOURCE
#undef _ISOC11_SOURCE
#undef _ISOC2X_SOURCE
#undef _ISOC23_SOURCE
#undef _LARGEFILE64_SOURCE
#undef _POSIX_C_SOURCE
#undef _POSIX_SOURCE
#undef _XOPEN_SOURCE
#undef _XOPEN_SOURCE_EXTENDED
#undef _DYNAMIC_STACK_SIZE_SOURCE
#endif

/*
 * Each does what its namesake of the C library does, for descriptors of the host and of the kernel.
 * Addresses are void pointers: the C library accepts all their types, too.
 */
int ob_local_socket(int domain, int type, int protocol);
int ob_local_bind(int fd, const void *address, socklen_t length);
int ob_local_listen(int fd, int backlog);
int ob_local_accept(int fd, void *address, socklen_t *length);
int ob_local_accept4(int fd, void *address, socklen_t *length, int flags);
int ob_local_connect(int fd, const void *address, socklen_t length);
int ob_local_shutdown(int fd, int how);
int ob_local_getsockname(int fd, void *address, socklen_t *length);
int ob_local_getpeername(int fd, void *address, socklen_t *length);
int ob_local_getsockopt(int fd, int level, int option, void *value, socklen_t *length);
int ob_local_setsockopt(int fd, int level, int option, const void *value, socklen_t length);

int ob_local_close(int fd);
int ob_local_dup(int fd);
int ob_local_dup2(int from, int to);
int ob_local_dup3(int from, int to, int flags);
int ob_local_fcntl(int fd, int command, ...);
int ob_local_ioctl(int fd, unsigned long request, ...);
int ob_local_fstat(int fd, struct stat *status);
FILE *ob_local_fdopen(int fd, const char *mode);

ssize_t ob_local_read(int fd, void *buffer, size_t size);
ssize_t ob_local_write(int fd, const void *buffer, size_t size);
ssize_t ob_local_readv(int fd, const struct iovec *pieces, int count);
ssize_t ob_local_writev(int fd, const struct iovec *pieces, int count);
ssize_t ob_local_recv(int fd, void *buffer, size_t size, int flags);
ssize_t ob_local_send(int fd, const void *buffer, size_t size, int flags);
ssize_t ob_local_recvfrom(int fd, void *buffer, size_t size, int flags, void *address,
			  socklen_t *length);
ssize_t ob_local_sendto(int fd, const void *buffer, size_t size, int flags, const void *address,
			socklen_t length);
ssize_t ob_local_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t ob_local_sendmsg(int fd, const struct msghdr *message, int flags);
int ob_local_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		      struct timespec *timeout);
int ob_local_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags);
ssize_t ob_local_sendfile(int to, int from, off_t *offset, size_t count);

int ob_local_poll(struct pollfd *descriptors, nfds_t count, int milliseconds);
int ob_local_ppoll(struct pollfd *descriptors, nfds_t count, const struct timespec *timeout,
		   const sigset_t *signals);
int ob_local_select(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
		    struct timeval *timeout);
int ob_local_pselect(int count, fd_set *readable, fd_set *writable, fd_set *exceptional,
		     const struct timespec *timeout, const sigset_t *signals);
int ob_local_epoll_create(int size);
int ob_local_epoll_create1(int flags);
int ob_local_epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event);
int ob_local_epoll_wait(int epoll, struct epoll_event *events, int most, int milliseconds);
int ob_local_epoll_pwait(int epoll, struct epoll_event *events, int most, int milliseconds,
			 const sigset_t *signals);

/* Handlers end blocked calls of the kernel, as they end those of the host. */
sighandler_t ob_local_signal(int number, sighandler_t handler);
int ob_local_sigaction(int number, const struct sigaction *action, struct sigaction *old);

#ifndef OUTBOARD_SOCKETS_WITHOUT_MACROS
#define socket ob_local_socket
#define bind ob_local_bind
#define listen ob_local_listen
#define accept ob_local_accept
#define accept4 ob_local_accept4
#define connect ob_local_connect
#define shutdown ob_local_shutdown
#define getsockname ob_local_getsockname
#define getpeername ob_local_getpeername
#define getsockopt ob_local_getsockopt
#define setsockopt ob_local_setsockopt
#define close ob_local_close
#define dup ob_local_dup
#define dup2 ob_local_dup2
#define dup3 ob_local_dup3
#define fcntl ob_local_fcntl
#define ioctl ob_local_ioctl
#define fstat ob_local_fstat
#define fdopen ob_local_fdopen
#define read ob_local_read
#define write ob_local_write
#define readv ob_local_readv
#define writev ob_local_writev
#define recv ob_local_recv
#define send ob_local_send
#define recvfrom ob_local_recvfrom
#define sendto ob_local_sendto
#define recvmsg ob_local_recvmsg
#define sendmsg ob_local_sendmsg
#define recvmmsg ob_local_recvmmsg
#define sendmmsg ob_local_sendmmsg
#define sendfile ob_local_sendfile
#define poll ob_local_poll
#define ppoll ob_local_ppoll
#define select ob_local_select
#define pselect ob_local_pselect
#define epoll_create ob_local_epoll_create
#define epoll_create1 ob_local_epoll_create1
#define epoll_ctl ob_local_epoll_ctl
#define epoll_wait ob_local_epoll_wait
#define epoll_pwait ob_local_epoll_pwait
#define signal ob_local_signal
/* A structure has the same name. */
#define sigaction(number, action, old) ob_local_sigaction(number, action, old)
#endif

#endif
