// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client in the same process as a server that outboard/sockets.h turned into a local client: a
 * thread that starts before main(). It connects to the server over the kernel's loopback, sends a
 * request, writes the answer into a file of the host, and ends the server by a signal.
 *
 *   LOCAL_PORT      the server's port
 *   LOCAL_REQUEST   the request
 *   LOCAL_ANSWER    the path of the file
 *   LOCAL_TIMES     how often, each time on a connection of its own; the file has the last answer
 *   LOCAL_BYTES     the length of the answer, if the server does not close the connection
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <outboard/syscalls.h>

#include "check.h"

/* -1: nobody listens yet, or the kernel has not booted. */
static int try_to_connect(int port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = (int)ob_sys_socket(AF_INET, SOCK_STREAM, 0);

	if (fd >= 0 && ob_sys_connect(fd, (void *)&address, sizeof(address))) {
		ob_sys_close(fd);
		fd = -1;
	}
	return fd;
}

static int connect_to_server(int port)
{
	int fd;

	for (int i = 0; (fd = try_to_connect(port)) < 0; i++) {
		CHECK(i < 3000 && "the server listens");
		usleep(10000);
	}
	return fd;
}

static void exchange(int port, const char *request, const char *path)
{
	static char buffer[1 << 16];
	const char *bytes = getenv("LOCAL_BYTES");
	long length = 1, left = bytes ? atol(bytes) : LONG_MAX;
	int fd = connect_to_server(port), file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	CHECK(file >= 0);
	CHECK(ob_sys_write(fd, request, strlen(request)) == (long)strlen(request));
	for (; left && length; left -= length) {
		length = ob_sys_read(fd, buffer, sizeof(buffer));
		CHECK(length >= 0 && write(file, buffer, (size_t)length) == length);
	}
	CHECK(!close(file) && !ob_sys_close(fd));
}

static void *run(void *unused)
{
	const char *times = getenv("LOCAL_TIMES");

	for (int i = times ? atoi(times) : 1; i; i--)
		exchange(atoi(getenv("LOCAL_PORT")), getenv("LOCAL_REQUEST"),
			 getenv("LOCAL_ANSWER"));
	/* All signals are blocked here, so the server gets it. */
	CHECK(!kill(getpid(), SIGTERM));
	return unused;
}

static __attribute__((constructor)) void start(void)
{
	pthread_t thread;
	sigset_t all, before;

	if (!getenv("LOCAL_PORT"))
		return;
	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGURG);
	CHECK(!pthread_sigmask(SIG_SETMASK, &all, &before));
	CHECK(!pthread_create(&thread, NULL, run, NULL));
	CHECK(!pthread_sigmask(SIG_SETMASK, &before, NULL));
}
