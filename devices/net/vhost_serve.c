// SPDX-License-Identifier: GPL-2.0-only
/*
 * vhost-user: listens on a UNIX socket, and gives each front-end that connects a port of the hub.
 *
 * A thread serves one front-end after the other; others wait in the socket's queue. Nothing of this
 * is a kernel's: servers share a platform of their own, which lends them threads.
 *
 * A front-end can make a thread that rings its bell block (bell.h): this one, or that of the port.
 * If that thread does not come back, the socket serves nobody any more, and memory and descriptors
 * stay until the process ends. Other sockets go on.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fork_owner.h"
#include "raw.h"
#include "../shared_fd.h"
#include "hub.h"
#include "vhost_serve.h"

#define WAITING_MOST 8

static struct ob_host platform;
static struct ob_net_server *servers;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;	/* of the list */
static pthread_once_t fork_hook_once = PTHREAD_ONCE_INIT;
static int fork_hook_error;

/* ---- a front-end -------------------------------------------------------- */

/* The number of an interrupt is that of the queue, plus 1. The hub's thread fills the first one. */
static void interrupt(void *context, uint32_t number)
{
	struct ob_net_server *s = context;

	if (number == 1)
		ob_bell_ring(&s->queues[0].call);
	else
		ob_server_ring(s, number - 1);
}

static int open_port(struct ob_net_server *s, char *error, size_t size)
{
	struct ob_net_request request = {
		.target = s->hub, .mtu = s->mtu, .opener = s->opener < 0 ? NULL : &s->opener,
	};
	struct ob_net_driver driver = { &s->memory.parts, interrupt, s, &s->stopping };
	struct ob_net_backend *backend;
	int result;

	s->port = ob_net_port_new(s->host, NULL, 1);
	if (!s->port) {
		snprintf(error, size, "the host has no memory, or no random numbers");
		return -ENOMEM;
	}
	ob_net_port_set_driver(s->port, &driver);
	result = ob_net_hub_open(s->host, s->port, &request, &backend, error, size);
	if (result) {
		ob_net_port_free(s->port);
		return result;
	}
	s->device = ob_net_port_complete(s->port, backend, NULL);
	return 0;
}

/* A fork()ed child must not find a device that is being freed. */
static void close_port(struct ob_net_server *s)
{
	struct ob_virtio_device *device = s->device;

	__atomic_store_n(&s->device, NULL, __ATOMIC_SEQ_CST);
	device->operations->close(device);
}

static void forget_front_end(struct ob_net_server *s)
{
	memset(s->queues, 0, sizeof(s->queues));
	for (int i = 0; i < OB_SERVER_QUEUES; i++)
		s->queues[i].kick = s->queues[i].call.fd = -1;
	s->protocol = 0;
	s->has_features = s->enables = false;
}

static void serve(struct ob_net_server *s)
{
	char error[256];

	forget_front_end(s);
	if (open_port(s, error, sizeof(error))) {
		ob_server_say(s, "the front-end is disconnected: %s", error);
	} else {
		ob_server_front_end(s);
		if (s->is_stuck)
			return;
		close_port(s);
	}
	ob_server_memory_unmap(&s->memory);
	ob_server_close_descriptors(s);
}

static bool is_stopping(const struct ob_net_server *s)
{
	return __atomic_load_n(&s->stopping, __ATOMIC_SEQ_CST);
}

static void work(void *argument)
{
	struct ob_net_server *s = argument;

	while (!is_stopping(s) && !s->is_stuck) {
		struct pollfd fds[] = {
			{ .fd = s->listener, .events = POLLIN },
			{ .fd = s->event, .events = POLLIN },
		};

		raw_ppoll(fds, 2, NULL);
		if (!fds[0].revents || is_stopping(s))
			continue;
		s->socket = raw_accept(s->listener, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (s->socket >= 0)
			serve(s);
	}
	if (s->is_stuck) {
		shutdown(s->socket, SHUT_RDWR);
		shutdown(s->listener, SHUT_RDWR);
	}
	__atomic_store_n(&s->ended, 1, __ATOMIC_SEQ_CST);
	ob_host_wake(s->host, &s->ended, 1);
}

/* ---- the listener ------------------------------------------------------- */

/* A socket that a process left behind when it ended. */
static bool is_abandoned(const struct sockaddr_un *address)
{
	int fd = raw_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused = raw_connect(fd, (const struct sockaddr *)address, sizeof(*address)) &&
		       errno == ECONNREFUSED;
	struct stat file;

	if (fd >= 0)
		raw_close(fd);
	return refused && !lstat(address->sun_path, &file) && S_ISSOCK(file.st_mode);
}

static int bind_to(int fd, const struct sockaddr_un *address)
{
	if (!bind(fd, (const struct sockaddr *)address, sizeof(*address)))
		return 0;
	if (errno != EADDRINUSE)
		return -errno;
	if (!is_abandoned(address))
		return -EADDRINUSE;
	unlink(address->sun_path);
	return bind(fd, (const struct sockaddr *)address, sizeof(*address)) ? -errno : 0;
}

/* Nobody can connect before listen(): until then the file has its right mode. */
static int listen_at(struct ob_net_server *s, char *error, size_t size)
{
	struct sockaddr_un address;
	int result;

	if (!ob_vhost_address(s->path, &address)) {
		snprintf(error, size, "vhost-user %.64s...: the path of a socket has at most %zu "
			 "characters", s->path, sizeof(address.sun_path) - 1);
		return -ENAMETOOLONG;
	}
	s->listener = raw_socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	result = s->listener < 0 ? -errno : bind_to(s->listener, &address);
	if (!result && (chmod(s->path, 0600) || listen(s->listener, WAITING_MOST))) {
		result = -errno;
		unlink(s->path);
	}
	if (result)
		snprintf(error, size, "vhost-user %s: cannot listen: %s", s->path,
			 strerror(-result));
	return result;
}

/* ---- fork --------------------------------------------------------------- */

static void close_own(struct ob_net_server *s)
{
	ob_fork_owner_drop(&s->listener);
	ob_fork_owner_drop(&s->opener);
	ob_fork_owner_drop(&s->event);
}

/* The servers are the parent's. Their memory stays: a thread of the parent was using it. */
static void forked_child(void)
{
	pthread_mutex_init(&mutex, NULL);
	ob_fork_owners_close();
	memset(&platform.threads, 0, sizeof(platform.threads));
	for (struct ob_net_server *s = servers; s; s = s->next) {
		if (s->device)
			s->device->operations->forked(s->device);
		ob_server_close_descriptors(s);
		close_own(s);
	}
	servers = NULL;
}

static void install_fork_hook(void)
{
	fork_hook_error = ob_fork_owners_hook(forked_child);
}

static void link_server(struct ob_net_server *s)
{
	pthread_mutex_lock(&mutex);
	s->next = servers;
	servers = s;
	pthread_mutex_unlock(&mutex);
}

static void unlink_server(struct ob_net_server *s)
{
	struct ob_net_server **at = &servers;

	pthread_mutex_lock(&mutex);
	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
	pthread_mutex_unlock(&mutex);
}

/* ---- start and end ------------------------------------------------------ */

static void release(struct ob_net_server *s)
{
	close_own(s);
	free(s->hub);
	free(s->path);
	free(s);
}

static struct ob_net_server *new_server(const struct ob_platform_net_serve *from)
{
	struct ob_net_server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->host = &platform;
	s->mtu = from->mtu;
	s->log = from->log;
	s->log_context = from->context;
	s->listener = s->opener = s->socket = s->event = -1;
	forget_front_end(s);
	s->event = raw_eventfd();
	s->hub = strdup(from->hub);
	s->path = strdup(from->socket);
	if (s->event >= 0 && s->hub && s->path)
		return s;
	release(s);
	return NULL;
}

/* A hub that cannot be joined is an error now, not when a front-end connects. */
static int check_hub(struct ob_net_server *s, char *error, size_t size)
{
	int result = open_port(s, error, size);

	if (result)
		return result;
	close_port(s);
	return 0;
}

int ob_platform_net_serve_listen(const struct ob_platform_net_serve *from,
				 struct ob_net_server **server, char *error, size_t size)
{
	struct ob_net_server *s;
	int result;

	pthread_once(&fork_hook_once, install_fork_hook);
	s = new_server(from);
	if (!s || fork_hook_error) {
		if (s)
			release(s);
		snprintf(error, size, "vhost-user %.107s: out of memory or descriptors",
			 from->socket);
		return -ENOMEM;
	}
	result = check_hub(s, error, size);
	if (!result)
		result = listen_at(s, error, size);
	if (result) {
		release(s);
		return result;
	}
	*server = s;
	return 0;
}

/* Not before: a program may fork after it listens, and start the server in the child. */
static int start_thread(struct ob_net_server *s)
{
	int result;

	link_server(s);
	result = ob_host_thread_create(s->host, work, s, "outboard-serve", &s->thread);
	if (result)
		unlink_server(s);
	return result;
}

int ob_platform_net_serve_start(struct ob_net_server *s, int opener, char *error, size_t size)
{
	int result = 0;

	if (opener >= 0) {
		s->opener = raw_dup(opener);
		result = s->opener < 0 ? -errno : 0;
	}
	if (!result)
		result = start_thread(s);
	if (result)
		snprintf(error, size, "vhost-user %.107s: the host refuses a thread or a "
			 "descriptor (%s)", s->path, strerror(-result));
	else
		s->is_started = true;
	return result;
}

void ob_platform_net_serve_open(const struct ob_net_server *s, int socket)
{
	ob_hub_open_for(s->hub, socket);
}

/* False: a front-end keeps the thread, or that of the port. */
static bool end_thread(struct ob_net_server *s)
{
	struct ob_bell *const bells[OB_SERVER_QUEUES] = { &s->queues[0].call, &s->queues[1].call };
	uint64_t one = 1;

	__atomic_store_n(&s->stopping, true, __ATOMIC_SEQ_CST);
	(void)!raw_write(s->event, &one, sizeof(one));
	if (!ob_bell_wait(bells, OB_SERVER_QUEUES, s->host, &s->ended))
		return false;
	ob_host_thread_join(s->host, s->thread);
	return !s->is_stuck;
}

void ob_platform_net_serve_end(struct ob_net_server *s)
{
	bool is_left = s->is_started && !end_thread(s);

	unlink(s->path);
	if (is_left) {
		/* The caller may free what the function uses. */
		__atomic_store_n(&s->log, NULL, __ATOMIC_RELEASE);
		return;
	}
	if (s->is_started)
		unlink_server(s);
	release(s);
}
