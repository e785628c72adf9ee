// SPDX-License-Identifier: GPL-2.0-only
/* Calls that move data or concern one socket: to the kernel, or to the C library. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include <outboard/syscalls.h>

#include "local.h"

/* Evaluates `kernel`, which may use kernel_fd, for a descriptor of the kernel, else `host`. */
#define EITHER(fd, kernel, host)				\
	({							\
		int kernel_fd = ob_local_kernel_fd(fd);		\
		kernel_fd < 0 ? (host) : (kernel);		\
	})

/* The same for a call that may block, and that restarts after a handler. */
#define EITHER_BLOCKS(fd, kernel, host) \
	EITHER(fd, OB_LOCAL_BLOCKING(OB_LOCAL_RESTARTS, kernel), host)

int ob_local_bind(int fd, const void *address, socklen_t length)
{
	return EITHER(fd, (int)ob_sys_bind(kernel_fd, (void *)address, (int)length),
		      bind(fd, address, length));
}

int ob_local_listen(int fd, int backlog)
{
	return EITHER(fd, (int)ob_sys_listen(kernel_fd, backlog), listen(fd, backlog));
}

int ob_local_connect(int fd, const void *address, socklen_t length)
{
	return EITHER_BLOCKS(fd, (int)ob_sys_connect(kernel_fd, (void *)address, (int)length),
			     connect(fd, address, length));
}

int ob_local_shutdown(int fd, int how)
{
	return EITHER(fd, (int)ob_sys_shutdown(kernel_fd, how), shutdown(fd, how));
}

int ob_local_getsockname(int fd, void *address, socklen_t *length)
{
	return EITHER(fd, (int)ob_sys_getsockname(kernel_fd, address, (int *)length),
		      getsockname(fd, address, length));
}

int ob_local_getpeername(int fd, void *address, socklen_t *length)
{
	return EITHER(fd, (int)ob_sys_getpeername(kernel_fd, address, (int *)length),
		      getpeername(fd, address, length));
}

int ob_local_getsockopt(int fd, int level, int option, void *value, socklen_t *length)
{
	return EITHER(fd, (int)ob_sys_getsockopt(kernel_fd, level, option, value, (int *)length),
		      getsockopt(fd, level, option, value, length));
}

int ob_local_setsockopt(int fd, int level, int option, const void *value, socklen_t length)
{
	return EITHER(fd, (int)ob_sys_setsockopt(kernel_fd, level, option, value, (int)length),
		      setsockopt(fd, level, option, value, length));
}

ssize_t ob_local_read(int fd, void *buffer, size_t size)
{
	return EITHER_BLOCKS(fd, ob_sys_read(kernel_fd, buffer, size), read(fd, buffer, size));
}

ssize_t ob_local_write(int fd, const void *buffer, size_t size)
{
	return EITHER_BLOCKS(fd, ob_sys_write(kernel_fd, buffer, size), write(fd, buffer, size));
}

ssize_t ob_local_readv(int fd, const struct iovec *pieces, int count)
{
	return EITHER_BLOCKS(fd,
			     ob_sys_readv((unsigned long)kernel_fd, pieces, (unsigned long)count),
			     readv(fd, pieces, count));
}

ssize_t ob_local_writev(int fd, const struct iovec *pieces, int count)
{
	return EITHER_BLOCKS(fd,
			     ob_sys_writev((unsigned long)kernel_fd, pieces, (unsigned long)count),
			     writev(fd, pieces, count));
}

ssize_t ob_local_recvfrom(int fd, void *buffer, size_t size, int flags, void *address,
			  socklen_t *length)
{
	return EITHER_BLOCKS(fd,
			     ob_sys_recvfrom(kernel_fd, buffer, size, (unsigned int)flags, address,
					     (int *)length),
			     recvfrom(fd, buffer, size, flags, address, length));
}

ssize_t ob_local_sendto(int fd, const void *buffer, size_t size, int flags, const void *address,
			socklen_t length)
{
	return EITHER_BLOCKS(fd, ob_sys_sendto(kernel_fd, (void *)buffer, size, (unsigned int)flags,
					       (void *)address, (int)length),
			     sendto(fd, buffer, size, flags, address, length));
}

ssize_t ob_local_recv(int fd, void *buffer, size_t size, int flags)
{
	return ob_local_recvfrom(fd, buffer, size, flags, NULL, NULL);
}

ssize_t ob_local_send(int fd, const void *buffer, size_t size, int flags)
{
	return ob_local_sendto(fd, buffer, size, flags, NULL, 0);
}

ssize_t ob_local_recvmsg(int fd, struct msghdr *message, int flags)
{
	return EITHER_BLOCKS(fd, ob_sys_recvmsg(kernel_fd, message, (unsigned int)flags),
			     recvmsg(fd, message, flags));
}

ssize_t ob_local_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return EITHER_BLOCKS(fd, ob_sys_sendmsg(kernel_fd, (void *)message, (unsigned int)flags),
			     sendmsg(fd, message, flags));
}

int ob_local_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
		      struct timespec *timeout)
{
	return EITHER_BLOCKS(fd,
			     (int)ob_sys_recvmmsg(kernel_fd, messages, count, (unsigned int)flags,
						  timeout),
			     recvmmsg(fd, messages, count, flags, timeout));
}

int ob_local_sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
	return EITHER_BLOCKS(fd,
			     (int)ob_sys_sendmmsg(kernel_fd, messages, count, (unsigned int)flags),
			     sendmmsg(fd, messages, count, flags));
}

/* ---- sendfile ------------------------------------------------------------------- */

#define PIECE (64u << 10)

/* Sends a piece of a file of the host that begins at `offset`. Bytes sent, or -1 and errno. */
static ssize_t send_piece(int kernel_fd, int from, off_t offset, size_t size, char *buffer)
{
	ssize_t got = pread(from, buffer, size < PIECE ? size : PIECE, offset);

	if (got <= 0)
		return got;
	return OB_LOCAL_BLOCKING(OB_LOCAL_RESTARTS,
				 ob_sys_write(kernel_fd, buffer, (size_t)got));
}

static ssize_t send_file(int kernel_fd, int from, off_t offset, size_t count)
{
	char *buffer = malloc(PIECE);
	size_t done = 0;
	ssize_t sent = 0;

	if (!buffer) {
		errno = ENOMEM;
		return -1;
	}
	while (done < count) {
		sent = send_piece(kernel_fd, from, offset + (off_t)done, count - done, buffer);
		if (sent <= 0)
			break;
		done += (size_t)sent;
	}
	free(buffer);
	return done ? (ssize_t)done : sent;
}

/* From a file of the host to a socket of the kernel: neither can do that alone. */
static ssize_t send_file_of_host(int kernel_fd, int from, off_t *offset, size_t count)
{
	off_t start = offset ? *offset : lseek(from, 0, SEEK_CUR);
	ssize_t sent;

	if (start < 0)
		return -1;
	sent = send_file(kernel_fd, from, start, count);
	if (sent > 0 && offset)
		*offset = start + sent;
	else if (sent > 0 && lseek(from, start + sent, SEEK_SET) < 0)
		return -1;
	return sent;
}

ssize_t ob_local_sendfile(int to, int from, off_t *offset, size_t count)
{
	int kernel_to = ob_local_kernel_fd(to), kernel_from = ob_local_kernel_fd(from);

	if (kernel_to < 0 && kernel_from < 0)
		return sendfile(to, from, offset, count);
	if (kernel_to >= 0 && kernel_from < 0)
		return send_file_of_host(kernel_to, from, offset, count);
	/* Linux has no sendfile() out of a socket. */
	errno = EINVAL;
	return -1;
}
