// SPDX-License-Identifier: GPL-2.0-only
/*
 * Connections that come and go: net_soak_test SECONDS HUB
 *
 * Two kernels on a hub. In each round 2,000 connections are open at a time, each passes a number
 * there and back, and half of them end by a reset. At the end both kernels have no more sockets and
 * the process has little more memory than before. Prints the rounds and both sizes.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"

#define CONNECTIONS 2000
#define PORT 7007
/* Pages that the kernels keep in the caches of their allocators. */
#define KEPT (16ull << 20)
#define FEW_ROUNDS 3
#define PATIENCE 30000		/* hundredths of a second */

static struct ob_instance *booted(const char *hub, int host)
{
	struct ob_config config = { .size = sizeof(config), .vcpus = 2, .memory = 512ull << 20,
				    .log_level = OB_LOG_DEFAULT };
	struct rlimit files = { 2 * CONNECTIONS, 2 * CONNECTIONS };
	struct ob_instance *instance;
	char words[400];

	CHECK_EQUAL(ob_instance_new(&instance), 0);
	CHECK_EQUAL(ob_boot_on(instance, &config), 0);
	snprintf(words, sizeof(words), "hub:%s,ip=10.1.0.%d/24", hub, host);
	CHECK(ob_net_add_on(instance, words, NULL) >= 0);
	OK(ob_sys_setrlimit_on(instance, RLIMIT_NOFILE, (void *)&files));
	return instance;
}

static void write_setting(struct ob_instance *instance, const char *path, const char *value)
{
	int fd = (int)OK(ob_sys_openat_on(instance, AT_FDCWD, path, O_WRONLY, 0));

	OK(ob_sys_write_on(instance, fd, value, strlen(value)));
	OK(ob_sys_close_on(instance, fd));
}

struct server {
	struct ob_instance *instance;
	int listener, fds[CONNECTIONS];
};

static void listen_at(struct server *server)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int fd = (int)OK(ob_sys_socket_on(server->instance, AF_INET, SOCK_STREAM, 0));

	OK(ob_sys_bind_on(server->instance, fd, (void *)&any, sizeof(any)));
	OK(ob_sys_listen_on(server->instance, fd, CONNECTIONS));
	server->listener = fd;
}

static void *serve_round(void *argument)
{
	struct server *server = argument;
	uint32_t number;

	for (int i = 0; i < CONNECTIONS; i++) {
		int fd = (int)OK(ob_sys_accept4_on(server->instance, server->listener, NULL, NULL,
						   0));

		CHECK_EQUAL(OK(ob_sys_read_on(server->instance, fd, (char *)&number,
					      sizeof(number))), sizeof(number));
		number = ~number;
		OK(ob_sys_write_on(server->instance, fd, (char *)&number, sizeof(number)));
		server->fds[i] = fd;
	}
	return NULL;
}

static void connect_round(struct ob_instance *client)
{
	static int fds[CONNECTIONS];
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct linger reset = { .l_onoff = 1 };

	CHECK_EQUAL(inet_pton(AF_INET, "10.1.0.1", &to.sin_addr), 1);
	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		fds[i] = (int)OK(ob_sys_socket_on(client, AF_INET, SOCK_STREAM, 0));
		OK(ob_sys_connect_on(client, fds[i], (void *)&to, sizeof(to)));
		OK(ob_sys_write_on(client, fds[i], (char *)&i, sizeof(i)));
	}
	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		uint32_t answer;

		CHECK_EQUAL(OK(ob_sys_read_on(client, fds[i], (char *)&answer, sizeof(answer))),
			    sizeof(answer));
		CHECK_EQUAL(answer, ~i);
	}
	for (int i = 0; i < CONNECTIONS; i++) {
		if (i % 2)
			OK(ob_sys_setsockopt_on(client, fds[i], SOL_SOCKET, SO_LINGER,
						(void *)&reset, sizeof(reset)));
		OK(ob_sys_close_on(client, fds[i]));
	}
}

static void run_round(struct server *server, struct ob_instance *client)
{
	pthread_t thread;

	CHECK_EQUAL(pthread_create(&thread, NULL, serve_round, server), 0);
	connect_round(client);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	/* A hub may lose a reset: the server does not wait for it. */
	for (int i = 0; i < CONNECTIONS; i++)
		OK(ob_sys_close_on(server->instance, server->fds[i]));
}

static long sockets_in_use(struct ob_instance *instance)
{
	int fd = (int)OK(ob_sys_openat_on(instance, AT_FDCWD, "/proc/net/sockstat", O_RDONLY, 0));
	long size, used = -1;
	char text[512];

	size = OK(ob_sys_read_on(instance, fd, text, sizeof(text) - 1));
	text[size] = '\0';
	OK(ob_sys_close_on(instance, fd));
	CHECK_EQUAL(sscanf(strstr(text, "TCP: inuse"), "TCP: inuse %ld", &used), 1);
	return used;
}

/* The last segments may be on their way. */
static void wait_for_sockets(struct ob_instance *instance, long count)
{
	for (int i = 0; sockets_in_use(instance) != count; i++) {
		CHECK(i < PATIENCE && "sockets end");
		usleep(10000);
	}
}

static uint64_t seconds(void)
{
	struct timespec now;

	CHECK(!clock_gettime(CLOCK_MONOTONIC, &now));
	return (uint64_t)now.tv_sec;
}

int main(int count, char *words[])
{
	static struct server server;
	struct ob_instance *client;
	uint64_t before = 0, end;
	int rounds = 0;

	CHECK_EQUAL(count, 3);
	server.instance = booted(words[2], 1);
	client = booted(words[2], 2);
	/* A connection that ended is kept for a minute otherwise. */
	write_setting(client, "/proc/sys/net/ipv4/tcp_max_tw_buckets", "100");
	listen_at(&server);
	end = seconds() + strtoull(words[1], NULL, 10);
	while (rounds <= FEW_ROUNDS || seconds() < end) {
		/* By then, the caches have what they keep. */
		if (rounds++ == FEW_ROUNDS)
			before = client_resident_bytes();
		run_round(&server, client);
	}
	wait_for_sockets(server.instance, 1);
	wait_for_sockets(client, 0);
	printf("%d rounds, %lu MB before, %lu MB after\n", rounds, (unsigned long)(before >> 20),
	       (unsigned long)(client_resident_bytes() >> 20));
	client_wait_for_memory(before + KEPT);
	CHECK_EQUAL(ob_halt_on(client), 0);
	CHECK_EQUAL(ob_halt_on(server.instance), 0);
	return 0;
}
