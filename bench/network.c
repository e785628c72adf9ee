// SPDX-License-Identifier: GPL-2.0-only
/*
 * One end of a network benchmark: network STACK serve PORT
 *                                 network STACK out|in|rr ADDRESS PORT AMOUNT
 *
 * STACK is "native", or the description of an interface for ob_net_add(): then the program's
 * sockets are those of a kernel in this process.
 *
 *   serve  accepts connections for ever; the first byte of each says what the client does
 *   out    sends AMOUNT megabytes, and prints megabytes per second
 *   in     receives them
 *   rr     AMOUNT round trips of one byte; prints the median and the 99th percentile, and the
 *          processor time of this process for each, in microseconds
 *
 * The server prints "ready" when it listens.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <outboard/net.h>
#include <outboard/outboard.h>

#define PIECE (256 << 10)
#define MEGABYTE (1l << 20)
#define ROUNDS_MOST 1000000

static bool is_native;

static long call(long number, long a, long b, long c, long d, long e)
{
	long result;

	if (!is_native)
		return ob_syscall(number, a, b, c, d, e, 0l);
	result = syscall(number, a, b, c, d, e);
	return result < 0 ? -errno : result;
}

static long checked(const char *what, long result)
{
	if (result >= 0)
		return result;
	fprintf(stderr, "%s: %s\n", what, strerror((int)-result));
	exit(1);
}

static double seconds_of(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double now(void)
{
	return seconds_of(CLOCK_MONOTONIC);
}

/* Of all threads of this process. */
static double processor_time(void)
{
	return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

static void send_all(long socket, const void *bytes, long size)
{
	const char *at = bytes;

	while (size > 0) {
		long sent = checked("send", call(SYS_sendto, socket, (long)at, size, MSG_NOSIGNAL,
						 0));

		at += sent;
		size -= sent;
	}
}

/* Returns the number of bytes received: less than `size` at the end. */
static long receive_all(long socket, void *bytes, long size)
{
	long done = 0, got;

	do {
		got = checked("receive", call(SYS_recvfrom, socket, (long)bytes + done, size - done,
					      0, 0));
		done += got;
	} while (got && done < size);
	return done;
}

static void no_delay(long socket)
{
	int one = 1;

	checked("TCP_NODELAY", call(SYS_setsockopt, socket, IPPROTO_TCP, TCP_NODELAY, (long)&one,
				    sizeof(one)));
}

static char *piece_of_memory(void)
{
	char *piece = malloc(PIECE);

	if (!piece)
		exit(1);
	memset(piece, 'x', PIECE);
	return piece;
}

/* The client's request: one byte for the kind, and the amount. */
struct request {
	char kind;			/* 'o', 'i', 'r' */
	char unused[7];
	int64_t amount;
};

static void send_amount(long socket, char *piece, int64_t amount)
{
	for (; amount > 0; amount -= PIECE)
		send_all(socket, piece, amount < PIECE ? amount : PIECE);
}

static void receive_amount(long socket, char *piece, int64_t amount)
{
	while (amount > 0) {
		long got = receive_all(socket, piece, amount < PIECE ? amount : PIECE);

		if (!got)
			exit(1);
		amount -= got;
	}
}

static void *serve_one(void *argument)
{
	long socket = (long)argument;
	char *piece = piece_of_memory();
	struct request request;

	no_delay(socket);
	if (receive_all(socket, &request, sizeof(request)) == sizeof(request)) {
		if (request.kind == 'o') {
			receive_amount(socket, piece, request.amount);
			send_all(socket, "", 1);
		} else if (request.kind == 'i') {
			send_amount(socket, piece, request.amount);
		} else {
			while (request.amount-- && receive_all(socket, piece, 1))
				send_all(socket, piece, 1);
		}
	}
	call(SYS_close, socket, 0, 0, 0, 0);
	free(piece);
	return NULL;
}

static struct sockaddr_in address_of(const char *address, const char *port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
		fprintf(stderr, "%s: not an address\n", address);
		exit(2);
	}
	return to;
}

static void serve(const char *port)
{
	struct sockaddr_in at = address_of("0.0.0.0", port);
	long listener = checked("socket", call(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0));
	int one = 1;

	call(SYS_setsockopt, listener, SOL_SOCKET, SO_REUSEADDR, (long)&one, sizeof(one));
	checked("bind", call(SYS_bind, listener, (long)&at, sizeof(at), 0, 0));
	checked("listen", call(SYS_listen, listener, 128, 0, 0, 0));
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		long socket = checked("accept", call(SYS_accept4, listener, 0, 0, 0, 0));
		pthread_t thread;

		if (pthread_create(&thread, NULL, serve_one, (void *)socket))
			exit(1);
		pthread_detach(thread);
	}
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void round_trips(long socket, long count)
{
	double *times = calloc((size_t)count, sizeof(*times)), processor = processor_time();
	char byte = 'x';

	if (!times)
		exit(1);
	for (long i = 0; i < count; i++) {
		double begin = now();

		send_all(socket, &byte, 1);
		if (receive_all(socket, &byte, 1) != 1)
			exit(1);
		times[i] = now() - begin;
	}
	processor = processor_time() - processor;
	qsort(times, (size_t)count, sizeof(*times), compare);
	printf("%.2f %.2f %.2f\n", times[count / 2] * 1e6, times[count * 99 / 100] * 1e6,
	       processor / (double)count * 1e6);
	free(times);
}

static void bulk(long socket, const struct request *request)
{
	char *piece = piece_of_memory();
	double begin = now();

	if (request->kind == 'o') {
		send_amount(socket, piece, request->amount);
		/* The server answers when it has all. */
		receive_all(socket, piece, 1);
	} else {
		receive_amount(socket, piece, request->amount);
	}
	printf("%.1f\n", (double)request->amount / MEGABYTE / (now() - begin));
	free(piece);
}

static void run_client(const char *what, const char *address, const char *port, long amount)
{
	struct sockaddr_in to = address_of(address, port);
	struct request request = { .kind = what[0], .amount = amount };
	long socket = checked("socket", call(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0));

	if (request.kind != 'r')
		request.amount *= MEGABYTE;
	checked("connect", call(SYS_connect, socket, (long)&to, sizeof(to), 0, 0));
	no_delay(socket);
	send_all(socket, &request, sizeof(request));
	if (request.kind == 'r')
		round_trips(socket, amount);
	else
		bulk(socket, &request);
}

static void boot(const char *description)
{
	struct ob_config config = { .size = sizeof(config), .log_level = OB_LOG_DEFAULT };
	char name[16];

	if (ob_boot(&config)) {
		fprintf(stderr, "%s\n", ob_boot_error());
		exit(1);
	}
	if (ob_net_add(description, name) < 0) {
		fprintf(stderr, "%s\n", ob_net_error());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	long amount = argc == 6 ? atol(argv[5]) : 0;

	if (argc != 4 && (argc != 6 || amount < 1 || amount > ROUNDS_MOST)) {
		fprintf(stderr, "usage: network STACK serve PORT, "
				"network STACK out|in|rr ADDRESS PORT AMOUNT\n");
		return 2;
	}
	is_native = !strcmp(argv[1], "native");
	if (!is_native)
		boot(argv[1]);
	if (argc == 4)
		serve(argv[3]);
	run_client(argv[2], argv[3], argv[4], amount);
	return is_native ? 0 : -ob_halt();
}
