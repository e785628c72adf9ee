// SPDX-License-Identifier: GPL-2.0-only
/* Descriptors of the kernel among those of the host: see local.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include <outboard/syscalls.h>

#include "local.h"

static void forget(int kernel_fd)
{
	int before = errno;

	if (kernel_fd >= 0)
		ob_sys_close(kernel_fd);
	errno = before;
}

int ob_local_publish(long kernel_fd, bool close_on_exec)
{
	int fd;

	if (kernel_fd < 0)
		return -1;
	fd = epoll_create1(close_on_exec ? EPOLL_CLOEXEC : 0);
	if (fd >= OB_LOCAL_MOST) {
		close(fd);
		fd = -1;
		errno = EMFILE;
	}
	if (fd < 0)
		forget((int)kernel_fd);
	else
		ob_local_set_kernel_fd(fd, (int)kernel_fd);
	return fd;
}

int ob_local_socket(int domain, int type, int protocol)
{
	/* Other programs of the host are at the other end of these. */
	if (domain == AF_UNIX)
		return socket(domain, type, protocol);
	if (ob_local_start())
		return -1;
	return ob_local_publish(ob_sys_socket(domain, type, protocol), type & SOCK_CLOEXEC);
}

int ob_local_accept4(int fd, void *address, socklen_t *length, int flags)
{
	int kernel_fd = ob_local_kernel_fd(fd);

	if (kernel_fd < 0)
		return accept4(fd, address, length, flags);
	return ob_local_publish(OB_LOCAL_BLOCKING(OB_LOCAL_RESTARTS,
						  ob_sys_accept4(kernel_fd, address, (int *)length,
								 flags)),
				flags & SOCK_CLOEXEC);
}

int ob_local_accept(int fd, void *address, socklen_t *length)
{
	return ob_local_accept4(fd, address, length, 0);
}

/* The number is free for others only after the kernel's descriptor is closed. */
int ob_local_close(int fd)
{
	if (ob_local_kernel_fd(fd) >= 0)
		forget(ob_local_set_kernel_fd(fd, -1));
	return close(fd);
}

int ob_local_dup(int fd)
{
	return ob_local_fcntl(fd, F_DUPFD, 0);
}

int ob_local_dup3(int from, int to, int flags)
{
	int kernel_fd = ob_local_kernel_fd(from), fd;
	long copy = -1;

	if (kernel_fd >= 0) {
		copy = ob_sys_dup(kernel_fd);
		if (copy < 0)
			return -1;
	}
	fd = to < OB_LOCAL_MOST ? dup3(from, to, flags) : (errno = EBADF, -1);
	forget(fd < 0 ? (int)copy : ob_local_set_kernel_fd(fd, (int)copy));
	return fd;
}

int ob_local_dup2(int from, int to)
{
	/* dup3 refuses this. */
	if (from == to)
		return dup2(from, to);
	return ob_local_dup3(from, to, 0);
}

static int duplicate(int fd, int kernel_fd, int command, long least)
{
	long copy = ob_sys_dup(kernel_fd);
	int number;

	if (copy < 0)
		return -1;
	number = fcntl(fd, command, least);
	if (number < 0)
		forget((int)copy);
	else
		ob_local_set_kernel_fd(number, (int)copy);
	return number;
}

int ob_local_fcntl(int fd, int command, ...)
{
	int kernel_fd = ob_local_kernel_fd(fd);
	va_list arguments;
	long argument;

	va_start(arguments, command);
	argument = va_arg(arguments, long);
	va_end(arguments);
	if (kernel_fd < 0 || command == F_GETFD || command == F_SETFD)
		return fcntl(fd, command, argument);
	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		return duplicate(fd, kernel_fd, command, argument);
	return (int)ob_sys_fcntl((unsigned int)kernel_fd, (unsigned int)command,
				 (unsigned long)argument);
}

int ob_local_ioctl(int fd, unsigned long request, ...)
{
	int kernel_fd = ob_local_kernel_fd(fd);
	va_list arguments;
	unsigned long argument;

	va_start(arguments, request);
	argument = va_arg(arguments, unsigned long);
	va_end(arguments);
	if (kernel_fd < 0)
		return ioctl(fd, request, argument);
	return (int)ob_sys_ioctl((unsigned int)kernel_fd, (unsigned int)request, argument);
}

int ob_local_fstat(int fd, struct stat *status)
{
	int kernel_fd = ob_local_kernel_fd(fd);

	return kernel_fd < 0 ? fstat(fd, status)
			     : (int)ob_sys_fstat((unsigned int)kernel_fd, status);
}

/* ---- streams ------------------------------------------------------------------ */

static ssize_t read_stream(void *cookie, char *buffer, size_t size)
{
	return ob_local_read((int)(intptr_t)cookie, buffer, size);
}

static ssize_t write_stream(void *cookie, const char *buffer, size_t size)
{
	return ob_local_write((int)(intptr_t)cookie, buffer, size);
}

static int close_stream(void *cookie)
{
	return ob_local_close((int)(intptr_t)cookie);
}

FILE *ob_local_fdopen(int fd, const char *mode)
{
	static const cookie_io_functions_t functions = {
		.read = read_stream, .write = write_stream, .close = close_stream,
	};

	if (ob_local_kernel_fd(fd) < 0)
		return fdopen(fd, mode);
	return fopencookie((void *)(intptr_t)fd, mode, functions);
}
