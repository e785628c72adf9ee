// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes lines of the log to standard error or a file, without waiting (invariant V7).
 *
 * Nobody may read a pipe or a terminal, and O_NONBLOCK belongs to all processes that share the open
 * file description. So each way to write has a flag of its own:
 *
 *	regular file		waits for the host's disk at most
 *	socket			MSG_DONTWAIT; if a sandbox refuses sendmsg(2), as a pipe
 *	pipe, terminal		RWF_NOWAIT; if the host has none for them: O_NONBLOCK, on an
 *				open file description that exists for one line
 *
 * That description is not kept: the reader of a pipe waits for its end. SIGPIPE and SIGXFSZ do not
 * reach the program, which has written nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "internal.h"
#include "raw.h"

/* How long a last message waits for a reader. */
#define PATIENCE_MSEC 2000

int ob_platform_log_open(const char *path)
{
	return raw_openat(AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY |
			  O_NONBLOCK, 0666);
}

void ob_platform_log_close(int handle)
{
	raw_close(handle);
}

/* ---- signals of a write --------------------------------------------------- */

struct held_signals {
	sigset_t set, before, pending;
};

static void hold_signals(struct held_signals *held)
{
	sigemptyset(&held->set);
	sigaddset(&held->set, SIGPIPE);
	sigaddset(&held->set, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &held->set, &held->before);
	sigpending(&held->pending);
}

/* Takes back the signal of a write that failed with this error. Keeps errno. */
static void release_signals(struct held_signals *held, int error)
{
	int number = error == EPIPE ? SIGPIPE : error == EFBIG ? SIGXFSZ : 0;
	struct timespec now = { 0 };
	int before = errno;
	sigset_t one;

	if (number && !sigismember(&held->pending, number)) {
		sigemptyset(&one);
		sigaddset(&one, number);
		syscall(SYS_rt_sigtimedwait, &one, NULL, &now, 8ul);
	}
	pthread_sigmask(SIG_SETMASK, &held->before, NULL);
	errno = before;
}

/* ---- one write that does not wait ----------------------------------------- */

static ssize_t write_once(int fd, const struct iovec *parts, int count)
{
	struct pollfd ready = { fd, POLLOUT, 0 };
	ssize_t written;
	char name[32];
	int own;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	own = raw_open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (own >= 0) {
		written = raw_writev(own, parts, count);
		raw_close(own);
		return written;
	}
	/* Another user's terminal, or a sandbox. Another writer could still fill it meanwhile. */
	if (raw_poll(&ready, 1, 0) > 0)
		return raw_writev(fd, parts, count);
	errno = EAGAIN;
	return -1;
}

static ssize_t write_now(int fd, const struct iovec *parts, int count)
{
	struct msghdr message = { .msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count };
	struct stat status;
	ssize_t written;

	if (fstat(fd, &status))
		return -1;
	if (S_ISSOCK(status.st_mode)) {
		written = raw_sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (written >= 0 || (errno != EPERM && errno != ENOSYS))
			return written;
	} else if (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)) {
		return raw_writev(fd, parts, count);
	}
	/* The offset -1 is the file's own. */
	written = raw_pwritev2(fd, parts, count, -1, RWF_NOWAIT);
	if (written >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL))
		return written;
	return write_once(fd, parts, count);
}

/* Moves the start of the parts behind what was written. Returns how many bytes are left. */
static size_t advance(struct iovec *parts, int count, size_t written)
{
	size_t left = 0;

	for (int i = 0; i < count; i++) {
		size_t part = written < parts[i].iov_len ? written : parts[i].iov_len;

		parts[i].iov_base = (char *)parts[i].iov_base + part;
		parts[i].iov_len -= part;
		written -= part;
		left += parts[i].iov_len;
	}
	return left;
}

/* Returns 0, or the host's error. Then a part may be written. */
static int write_parts(int fd, struct iovec *parts, int count)
{
	size_t left = advance(parts, count, 0);
	struct held_signals held;
	int error = 0;

	hold_signals(&held);
	while (left && !error) {
		ssize_t written = write_now(fd, parts, count);

		if (written >= 0)
			left = advance(parts, count, (size_t)written);
		else if (errno != EINTR)
			error = errno;
	}
	release_signals(&held, error);
	return error;
}

/* One system call per line, so that lines of several threads do not mix. */
bool ob_platform_log_write(int handle, const char *prefix, const char *line, uint64_t length)
{
	struct iovec parts[3] = {
		{ .iov_base = (void *)prefix, .iov_len = strlen(prefix) },
		{ .iov_base = (void *)line, .iov_len = length },
		{ .iov_base = (void *)"\n", .iov_len = 1 },
	};

	return !write_parts(handle, parts, 3);
}

void ob_posix_print(const char *text)
{
	struct iovec part = { (void *)text, strlen(text) };
	int waited = 0;

	while (write_parts(STDERR_FILENO, &part, 1) == EAGAIN && waited < PATIENCE_MSEC) {
		struct pollfd ready = { STDERR_FILENO, POLLOUT, 0 };

		raw_poll(&ready, 1, 100);
		waited += 100;
	}
}
