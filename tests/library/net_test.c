// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network interfaces: net_test WHAT ...
 *
 *   pair A ADDRESS B VCPUS BYTES   two kernels, whose interfaces A and B are on one segment. B
 *              connects to A at ADDRESS: checked contents in both directions at once, datagrams
 *              of all sizes, an interface that goes down and comes up, one that is removed and
 *              added again, a halt in the middle of traffic; prints "connected" before the
 *              first bytes
 *   host A ADDRESS PORT BYTES      the kernel connects to the host's echo server at ADDRESS
 *   listen A PORT                  the kernel's echo server, for one connection of the host;
 *              prints "ready"
 *
 * From the environment: SHARED_MEMORY, for kernels whose interfaces are of the kind vhost-user.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"
#include "stream.h"

#define PORT 7007
#define PIECE 65536
#define DATAGRAM_MOST 65000

static struct ob_instance *booted(long vcpus)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = (unsigned int)vcpus,
		.log_level = OB_LOG_DEFAULT,
		.flags = getenv("SHARED_MEMORY") ? OB_SHARED_MEMORY : 0,
	};
	struct ob_instance *instance;

	CHECK_EQUAL(ob_instance_new(&instance), 0);
	CHECK_EQUAL(ob_boot_on(instance, &config), 0);
	return instance;
}

static int add(struct ob_instance *instance, const char *description)
{
	char name[16] = "";
	int number = ob_net_add_on(instance, description, name);

	if (number < 0)
		fprintf(stderr, "%s: %s\n", description, ob_net_error());
	CHECK(number >= 0);
	CHECK(*name);
	return number;
}

static struct sockaddr_in at(const char *address, int port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	CHECK_EQUAL(inet_pton(AF_INET, address, &to.sin_addr), 1);
	return to;
}

/* ---- one end of a connection --------------------------------------------------- */

static long send_some(const struct stream *stream, const void *bytes, size_t size)
{
	return ob_sys_sendto_on(stream->context, stream->fd, (void *)bytes, size, MSG_NOSIGNAL,
				NULL, 0);
}

static long receive_some(const struct stream *stream, void *bytes, size_t room)
{
	return ob_sys_recvfrom_on(stream->context, stream->fd, bytes, room, 0, NULL, NULL);
}

/* `sends`, `receives`: the numbers of the streams. */
static struct stream end_of(struct ob_instance *instance, int fd, unsigned int sends,
			    unsigned int receives, uint64_t bytes)
{
	return (struct stream){ send_some, receive_some, instance, fd, sends, receives, bytes };
}

static int listening(struct ob_instance *instance, int port)
{
	struct sockaddr_in any = at("0.0.0.0", port);
	int one = 1, socket;

	socket = (int)ob_sys_socket_on(instance, AF_INET, SOCK_STREAM, 0);
	CHECK(socket >= 0);
	CHECK_EQUAL(ob_sys_setsockopt_on(instance, socket, SOL_SOCKET, SO_REUSEADDR, &one,
					 sizeof(one)), 0);
	CHECK_EQUAL(ob_sys_bind_on(instance, socket, (struct sockaddr *)&any, sizeof(any)), 0);
	CHECK_EQUAL(ob_sys_listen_on(instance, socket, 16), 0);
	return socket;
}

static int connected(struct ob_instance *instance, const char *address, int port)
{
	struct sockaddr_in to = at(address, port);
	int socket = (int)ob_sys_socket_on(instance, AF_INET, SOCK_STREAM, 0);

	CHECK(socket >= 0);
	CHECK_EQUAL(ob_sys_connect_on(instance, socket, (struct sockaddr *)&to, sizeof(to)), 0);
	return socket;
}

static void *accept_and_exchange(void *argument)
{
	struct stream *end = argument;
	int listener = end->fd;

	end->fd = (int)ob_sys_accept4_on(end->context, listener, NULL, NULL, 0);
	CHECK(end->fd >= 0);
	stream_exchange(end);
	CHECK_EQUAL(ob_sys_close_on(end->context, end->fd), 0);
	CHECK_EQUAL(ob_sys_close_on(end->context, listener), 0);
	return NULL;
}

static void transfer(struct ob_instance *a, const char *address, struct ob_instance *b,
		     uint64_t bytes)
{
	struct stream server = end_of(a, listening(a, PORT), 1, 2, bytes);
	struct stream client = end_of(b, -1, 2, 1, bytes);
	pthread_t thread;

	CHECK_EQUAL(pthread_create(&thread, NULL, accept_and_exchange, &server), 0);
	client.fd = connected(b, address, PORT);
	printf("connected\n");
	fflush(stdout);
	stream_exchange(&client);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(ob_sys_close_on(b, client.fd), 0);
}

/* ---- datagrams --------------------------------------------------------------------- */

struct echo {
	struct ob_instance *instance;
	int socket;
};

static void *echo_datagrams(void *argument)
{
	struct echo *echo = argument;
	static char bytes[DATAGRAM_MOST];
	long size;

	do {
		struct sockaddr_in from;
		int length = sizeof(from);

		size = ob_sys_recvfrom_on(echo->instance, echo->socket, bytes, sizeof(bytes), 0,
					  (struct sockaddr *)&from, &length);
		CHECK(size >= 0);
		CHECK_EQUAL(ob_sys_sendto_on(echo->instance, echo->socket, bytes, (size_t)size, 0,
					     (struct sockaddr *)&from, length), size);
	} while (size);
	return NULL;
}

/* An empty datagram ends the echo. */
static void datagrams(struct ob_instance *a, const char *address, struct ob_instance *b)
{
	static const int sizes[] = { 1, 17, 1000, 1472, 1473, 9000, 32768, DATAGRAM_MOST, 0 };
	struct sockaddr_in any = at("0.0.0.0", PORT), to = at(address, PORT);
	static unsigned char out[DATAGRAM_MOST], in[DATAGRAM_MOST + 1];
	struct echo echo = { a, (int)ob_sys_socket_on(a, AF_INET, SOCK_DGRAM, 0) };
	int socket = (int)ob_sys_socket_on(b, AF_INET, SOCK_DGRAM, 0);
	pthread_t thread;

	CHECK(echo.socket >= 0 && socket >= 0);
	CHECK_EQUAL(ob_sys_bind_on(a, echo.socket, (struct sockaddr *)&any, sizeof(any)), 0);
	CHECK_EQUAL(pthread_create(&thread, NULL, echo_datagrams, &echo), 0);
	for (int i = 0; i < DATAGRAM_MOST; i++)
		out[i] = stream_byte((uint64_t)i, 3);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		CHECK_EQUAL(ob_sys_sendto_on(b, socket, out, (size_t)sizes[i], 0,
					     (struct sockaddr *)&to, sizeof(to)), sizes[i]);
		CHECK_EQUAL(ob_sys_recvfrom_on(b, socket, in, sizeof(in), 0, NULL, NULL), sizes[i]);
		CHECK(!memcmp(in, out, (size_t)sizes[i]));
	}
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(ob_sys_close_on(a, echo.socket), 0);
	CHECK_EQUAL(ob_sys_close_on(b, socket), 0);
}

/* ---- interfaces that come and go ------------------------------------------------------ */

static void set_up(struct ob_instance *instance, const char *name, bool up)
{
	int socket = (int)ob_sys_socket_on(instance, AF_INET, SOCK_DGRAM, 0);
	struct ifreq request = {};

	CHECK(socket >= 0);
	strcpy(request.ifr_name, name);
	CHECK_EQUAL(ob_sys_ioctl_on(instance, socket, SIOCGIFFLAGS,
				    (unsigned long)&request), 0);
	if (up)
		request.ifr_flags |= IFF_UP;
	else
		request.ifr_flags &= ~IFF_UP;
	CHECK_EQUAL(ob_sys_ioctl_on(instance, socket, SIOCSIFFLAGS,
				    (unsigned long)&request), 0);
	CHECK_EQUAL(ob_sys_close_on(instance, socket), 0);
}

/* Sends until the kernel halts. */
static void *flood(void *argument)
{
	struct echo *echo = argument;
	static char bytes[PIECE];
	long result;

	do {
		result = ob_sys_sendto_on(echo->instance, echo->socket, bytes, sizeof(bytes),
					  MSG_NOSIGNAL, NULL, 0);
	} while (result > 0);
	CHECK_EQUAL(result, -1);
	CHECK_EQUAL(errno, ENODEV);
	return NULL;
}

static void *swallow(void *argument)
{
	struct echo *echo = argument;
	static char bytes[PIECE];
	int socket = (int)ob_sys_accept4_on(echo->instance, echo->socket, NULL, NULL, 0);

	CHECK(socket >= 0);
	while (ob_sys_recvfrom_on(echo->instance, socket, bytes, sizeof(bytes), 0, NULL, NULL) > 0)
		;
	return NULL;
}

/* The sender's kernel halts while frames are on their way in both directions. */
static void halt_in_traffic(struct ob_instance *a, const char *address, struct ob_instance *b)
{
	struct echo server = { a, listening(a, PORT + 1) }, client = { b, -1 };
	pthread_t sender, receiver;

	CHECK_EQUAL(pthread_create(&receiver, NULL, swallow, &server), 0);
	client.socket = connected(b, address, PORT + 1);
	CHECK_EQUAL(pthread_create(&sender, NULL, flood, &client), 0);
	usleep(100000);
	CHECK_EQUAL(ob_halt_on(b), 0);
	CHECK_EQUAL(pthread_join(sender, NULL), 0);
	CHECK_EQUAL(ob_halt_on(a), 0);
	CHECK_EQUAL(pthread_join(receiver, NULL), 0);
}

static void test_pair(char **words)
{
	const char *address = words[1];
	long vcpus = atol(words[3]);
	uint64_t bytes = strtoull(words[4], NULL, 10);
	struct ob_instance *a = booted(vcpus), *b = booted(vcpus);
	int number;

	add(a, words[0]);
	number = add(b, words[2]);
	transfer(a, address, b, bytes);
	datagrams(a, address, b);
	CHECK_EQUAL(ob_net_remove_on(b, number), 0);
	CHECK(ob_net_remove_on(b, number) < 0);
	add(b, words[2]);
	transfer(a, address, b, bytes / 16);
	set_up(a, "eth0", false);
	set_up(a, "eth0", true);
	transfer(a, address, b, bytes / 16);
	halt_in_traffic(a, address, b);
	CHECK_EQUAL(ob_instance_free(a), 0);
	CHECK_EQUAL(ob_instance_free(b), 0);
}

/* ---- the host ------------------------------------------------------------------------- */

static void test_host(char **words)
{
	struct ob_instance *instance = booted(2);
	struct stream end = end_of(instance, -1, 1, 1, strtoull(words[3], NULL, 10));

	add(instance, words[0]);
	end.fd = connected(instance, words[1], atoi(words[2]));
	stream_exchange(&end);
	CHECK_EQUAL(ob_sys_close_on(instance, end.fd), 0);
	CHECK_EQUAL(ob_halt_on(instance), 0);
}

static void test_listen(char **words)
{
	/* The close waits until the host has all data: a halt would drop the rest. */
	static const struct linger linger = { .l_onoff = 1, .l_linger = 60 };
	struct ob_instance *instance = booted(2);
	static char bytes[PIECE];
	int listener, socket;
	long size;

	add(instance, words[0]);
	listener = listening(instance, atoi(words[1]));
	printf("ready\n");
	fflush(stdout);
	socket = (int)ob_sys_accept4_on(instance, listener, NULL, NULL, 0);
	CHECK(socket >= 0);
	while ((size = ob_sys_recvfrom_on(instance, socket, bytes, sizeof(bytes), 0, NULL, NULL))) {
		CHECK(size > 0);
		for (long sent = 0; sent < size;) {
			long part = ob_sys_sendto_on(instance, socket, bytes + sent,
						     (size_t)(size - sent), MSG_NOSIGNAL, NULL, 0);

			CHECK(part > 0);
			sent += part;
		}
	}
	CHECK_EQUAL(ob_sys_setsockopt_on(instance, socket, SOL_SOCKET, SO_LINGER, (void *)&linger,
					 sizeof(linger)), 0);
	CHECK_EQUAL(ob_sys_close_on(instance, socket), 0);
	CHECK_EQUAL(ob_halt_on(instance), 0);
}

int main(int argc, char **argv)
{
	if (argc == 7 && !strcmp(argv[1], "pair"))
		test_pair(argv + 2);
	else if (argc == 6 && !strcmp(argv[1], "host"))
		test_host(argv + 2);
	else if (argc == 4 && !strcmp(argv[1], "listen"))
		test_listen(argv + 2);
	else
		return 2;
	return 0;
}
