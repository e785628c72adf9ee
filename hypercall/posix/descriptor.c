// SPDX-License-Identifier: GPL-2.0-only
/*
 * Descriptors keep clear of the numbers of standard input, output and error.
 *
 * A new descriptor gets the lowest free number. In a program that has closed its standard
 * descriptors, that number is one which the program's printf() and perror() write to. What they
 * write must not reach a disk image or the kernel's memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <outboard/platform_host.h>

#include "internal.h"
#include "raw.h"

#define FIRST (STDERR_FILENO + 1)

int ob_platform_descriptor(int fd)
{
	int moved, error;

	if (fd < 0 || fd >= FIRST)
		return fd;
	moved = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, FIRST);
	error = errno;
	raw_close(fd);
	errno = error;
	return moved;
}

int raw_pair(int pair[2])
{
	for (int i = 0; i < 2; i++) {
		pair[i] = ob_platform_descriptor(pair[i]);
		if (pair[i] < 0) {
			int error = errno;

			raw_close(pair[!i]);
			errno = error;
			return -1;
		}
	}
	return 0;
}

/* A descriptor that cannot move is closed, and its place in the message has -1. */
static void keep_received(struct cmsghdr *part)
{
	size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	int fd;

	for (size_t i = 0; i < count; i++) {
		unsigned char *place = CMSG_DATA(part) + i * sizeof(fd);

		memcpy(&fd, place, sizeof(fd));
		fd = ob_platform_descriptor(fd);
		memcpy(place, &fd, sizeof(fd));
	}
}

ssize_t raw_recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t got = syscall(SYS_recvmsg, fd, message, flags | MSG_CMSG_CLOEXEC);
	struct cmsghdr *part = got < 0 ? NULL : CMSG_FIRSTHDR(message);

	for (; part; part = CMSG_NXTHDR(message, part))
		if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
			keep_received(part);
	return got;
}

void ob_posix_occupy_standard(void)
{
	/* The host gives the lowest free number, and refuses reads and writes with O_PATH. */
	for (int fd = 0; fd < FIRST; fd++)
		if (raw_fcntl(fd, F_GETFD, 0) < 0)
			syscall(SYS_openat, AT_FDCWD, "/", O_PATH | O_CLOEXEC, 0);
}
