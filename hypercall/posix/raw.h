/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * System calls of the host that are no cancellation points (invariant V7).
 *
 * pthread_cancel() ends a thread inside one of the C library's cancellation points. If a client's
 * thread ended inside a hypercall, it would keep its vCPU, the kernel's locks and the request, and
 * the kernel would wait for them for ever. So the platform calls the host through these functions:
 * syscall(2) is no cancellation point. The thread ends at the next cancellation point of the
 * program itself.
 *
 * Results and errno are those of the functions of the same name. tests/library/test_cancel.py
 * compares the imports of all objects with the list of cancellation points.
 *
 * Functions that make descriptors give none of the numbers 0 to 2 (descriptor.c). The C library's
 * own functions would: the same test looks for them.
 */
#ifndef OUTBOARD_POSIX_RAW_H
#define OUTBOARD_POSIX_RAW_H

#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <outboard/platform_host.h>

static inline int raw_openat(int directory, const char *path, int flags, mode_t mode)
{
	return ob_platform_descriptor((int)syscall(SYS_openat, directory, path, flags, mode));
}

static inline int raw_open(const char *path, int flags)
{
	return raw_openat(AT_FDCWD, path, flags, 0);
}

static inline int raw_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

static inline ssize_t raw_read(int fd, void *bytes, size_t size)
{
	return syscall(SYS_read, fd, bytes, size);
}

static inline ssize_t raw_write(int fd, const void *bytes, size_t size)
{
	return syscall(SYS_write, fd, bytes, size);
}

static inline ssize_t raw_readv(int fd, const struct iovec *parts, int count)
{
	return syscall(SYS_readv, fd, parts, (long)count);
}

static inline ssize_t raw_writev(int fd, const struct iovec *parts, int count)
{
	return syscall(SYS_writev, fd, parts, (long)count);
}

static inline ssize_t raw_pread(int fd, void *bytes, size_t size, off_t offset)
{
	return syscall(SYS_pread64, fd, bytes, size, offset);
}

static inline ssize_t raw_pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

/* The host takes an offset in two words. Where a word has 64 bits, the second is unused. */
static inline ssize_t raw_preadv2(int fd, const struct iovec *parts, int count, off_t offset,
				  int flags)
{
	return syscall(SYS_preadv2, fd, parts, (long)count, offset, 0, flags);
}

static inline ssize_t raw_pwritev2(int fd, const struct iovec *parts, int count, off_t offset,
				   int flags)
{
	return syscall(SYS_pwritev2, fd, parts, (long)count, offset, 0, flags);
}

/* Commands whose argument is a number. */
static inline int raw_fcntl(int fd, int command, long argument)
{
	return (int)syscall(SYS_fcntl, fd, command, argument);
}

/* As poll(). `timeout`: NULL means for ever; the host may change it. */
static inline int raw_ppoll(struct pollfd *fds, unsigned long count, struct timespec *timeout)
{
	return (int)syscall(SYS_ppoll, fds, count, timeout, NULL, 8ul);
}

/* The time-out is in milliseconds; -1: none. */
static inline int raw_epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
	return (int)syscall(SYS_epoll_pwait, fd, events, (long)most, timeout, NULL, 8ul);
}

static inline int raw_fdatasync(int fd)
{
	return (int)syscall(SYS_fdatasync, fd);
}

static inline int raw_fsync(int fd)
{
	return (int)syscall(SYS_fsync, fd);
}

static inline ssize_t raw_copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset,
					  size_t size)
{
	return syscall(SYS_copy_file_range, from, from_offset, to, to_offset, size, 0);
}

static inline int raw_fallocate(int fd, int mode, off_t offset, off_t length)
{
	return (int)syscall(SYS_fallocate, fd, mode, offset, length);
}

static inline int raw_sync_file_range(int fd, off_t offset, off_t length, unsigned int flags)
{
	return (int)syscall(SYS_sync_file_range, fd, offset, length, flags);
}

static inline ssize_t raw_getrandom(void *bytes, size_t size, unsigned int flags)
{
	return syscall(SYS_getrandom, bytes, size, flags);
}

static inline ssize_t raw_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return syscall(SYS_sendmsg, fd, message, flags);
}

static inline ssize_t raw_send(int fd, const void *bytes, size_t size, int flags)
{
	return syscall(SYS_sendto, fd, bytes, size, flags, NULL, 0);
}

static inline ssize_t raw_recv(int fd, void *bytes, size_t size, int flags)
{
	return syscall(SYS_recvfrom, fd, bytes, size, flags, NULL, NULL);
}

/* Descriptors that come with the message are closed on exec. One of them is -1 if it was lost. */
ssize_t raw_recvmsg(int fd, struct msghdr *message, int flags);

static inline int raw_connect(int fd, const void *address, uint32_t size)
{
	return (int)syscall(SYS_connect, fd, address, size);
}

static inline int raw_accept(int fd, int flags)
{
	return ob_platform_descriptor((int)syscall(SYS_accept4, fd, NULL, NULL, flags));
}

static inline int raw_socket(int family, int type, int protocol)
{
	return ob_platform_descriptor((int)syscall(SYS_socket, family, type, protocol));
}

static inline int raw_eventfd(void)
{
	return ob_platform_descriptor((int)syscall(SYS_eventfd2, 0, EFD_CLOEXEC | EFD_NONBLOCK));
}

static inline int raw_epoll(void)
{
	return ob_platform_descriptor((int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC));
}

static inline int raw_memfd(const char *name, unsigned int flags)
{
	return ob_platform_descriptor((int)syscall(SYS_memfd_create, name, flags));
}

/* descriptor.c: moves both of a new pair. If one cannot move, both are closed: -1. */
int raw_pair(int pair[2]);

static inline int raw_socketpair(int type, int pair[2])
{
	return syscall(SYS_socketpair, AF_UNIX, type, 0, pair) ? -1 : raw_pair(pair);
}

static inline int raw_pipe(int pair[2], int flags)
{
	return syscall(SYS_pipe2, pair, flags) ? -1 : raw_pair(pair);
}

/* The time-out is in milliseconds; -1: none. */
static inline int raw_poll(struct pollfd *fds, nfds_t count, int timeout)
{
	struct timespec time = { timeout / 1000, timeout % 1000 * 1000000l };

	return (int)syscall(SYS_ppoll, fds, count, timeout < 0 ? NULL : &time, NULL, 0);
}

/* Copies a descriptor to a number of at least `least`, closed on exec. */
static inline int raw_dup_above(int fd, int least)
{
	return ob_platform_descriptor((int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, least));
}

/* Copies a descriptor, closed on exec. */
static inline int raw_dup(int fd)
{
	return raw_dup_above(fd, STDERR_FILENO + 1);
}

static inline pid_t raw_waitpid(pid_t child, int *status, int options)
{
	return (pid_t)syscall(SYS_wait4, child, status, options, NULL);
}

#endif
