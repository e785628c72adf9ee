// SPDX-License-Identifier: GPL-2.0-only
/* Clients that keep a lease: see lease.h. */
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "clock.h"
#include "error.h"
#include "instance.h"
#include "lease.h"
#include "wait.h"

#define fail(error, ...) ob_error_set(OB_ERROR_NET, error, __VA_ARGS__)

/* Milliseconds between two tries: doubled each time. */
#define FIRST_PAUSE 1000
#define LONGEST_PAUSE 64000
/* Between two requests to extend a lease, if the lease is long enough for that. */
#define EXTEND_PAUSE 60000

#define LEVEL_WARNING 4

#define SOCKET_COUNT 3

#define SOCKETS(client) { (client)->packet, (client)->udp, (client)->netlink.fd }

uint32_t ob_lease_random(struct ob_lease_client *client)
{
	uint32_t number = (uint32_t)ob_milliseconds();

	ob_syscall_on(client->instance, SYS_getrandom, &number, (long)sizeof(number),
		      1L /* GRND_NONBLOCK */);
	return number;
}

static bool is_stopped(const struct ob_lease_client *client)
{
	return __atomic_load_n(&client->stop, __ATOMIC_SEQ_CST);
}

/* ---- sockets ------------------------------------------------------------------ */

long ob_lease_set_option(struct ob_lease_client *client, int fd, int level, int option, int value)
{
	return ob_syscall_on(client->instance, SYS_setsockopt, (long)fd, (long)level, (long)option,
			     &value, (long)sizeof(value));
}

int ob_lease_open_udp(struct ob_lease_client *client, const void *address, size_t bytes)
{
	const struct sockaddr *any = address;
	int fd, error;

	fd = client->udp = (int)ob_syscall_on(client->instance, SYS_socket, (long)any->sa_family,
					      (long)(SOCK_DGRAM | SOCK_CLOEXEC), 0L);
	if (fd < 0)
		return fd;
	error = (int)ob_lease_set_option(client, fd, SOL_SOCKET, SO_BINDTOIFINDEX,
					 (int)client->link.index);
	if (!error)
		error = (int)ob_syscall_on(client->instance, SYS_bind, (long)fd, address,
					   (long)bytes);
	return error;
}

/* The sockets in one table of descriptors. -1: there is none. */
static void close_sockets(struct ob_instance *instance, const int sockets[SOCKET_COUNT])
{
	for (int i = 0; i < SOCKET_COUNT; i++)
		if (sockets[i] >= 0)
			ob_syscall_on(instance, SYS_close, (long)sockets[i]);
}

int ob_lease_wait_readable(struct ob_lease_client *client, int fd, uint64_t end)
{
	struct pollfd waiting = { .fd = fd, .events = POLLIN };
	uint64_t time = ob_milliseconds();
	long left = time >= end ? 0 : end - time > 3600000 ? 3600000 : (long)(end - time);

	if (is_stopped(client))
		return -EINTR;
	return (int)ob_syscall_on(client->instance, SYS_poll, &waiting, 1L, left);
}

void ob_lease_drop_packets(struct ob_lease_client *client, int fd)
{
	long length = 0;
	char byte;

	/* A flood does not keep the client here. */
	for (int i = 0; i < 1000 && length >= 0; i++)
		length = ob_syscall_on(client->instance, SYS_recvfrom, (long)fd, &byte, 1L,
				       (long)MSG_DONTWAIT, NULL, NULL);
}

int ob_lease_sleep_until(struct ob_lease_client *client, uint64_t end)
{
	while (ob_milliseconds() < end) {
		int result = ob_lease_wait_readable(client, client->udp, end);

		if (result < 0)
			return result;
		if (result)
			ob_lease_drop_packets(client, client->udp);
	}
	return 0;
}

/* ---- times ---------------------------------------------------------------------- */

uint64_t ob_lease_pause(struct ob_lease_client *client, unsigned int tries)
{
	uint64_t pause = FIRST_PAUSE;

	while (tries-- && pause < LONGEST_PAUSE)
		pause *= 2;
	return ob_milliseconds() + pause - pause / 4 + ob_lease_random(client) % (pause / 2);
}

uint64_t ob_lease_next_try(uint64_t end, uint32_t lease_seconds)
{
	uint64_t time = ob_milliseconds();
	uint64_t least = ob_lease_earlier(lease_seconds * 1000ull / 8, EXTEND_PAUSE);
	uint64_t pause = time < end ? (end - time) / 2 : 0;

	return ob_lease_earlier(time + (pause > least ? pause : least), end);
}

uint64_t ob_lease_time(const struct ob_lease_client *client, uint64_t milliseconds)
{
	return milliseconds == OB_NEVER ? OB_NEVER : client->bound_at + milliseconds;
}

void ob_lease_set_servers(struct ob_lease_client *client, const struct ob_net_servers *servers)
{
	struct ob_net_servers *leased = &client->interface->leased[client->protocol->kind];

	pthread_mutex_lock(&client->instance->net.mutex);
	if (memcmp(leased, servers, sizeof(*leased))) {
		*leased = *servers;
		/* Without the file the lease is of use all the same. */
		ob_resolver_write(client->instance);
	}
	pthread_mutex_unlock(&client->instance->net.mutex);
}

/* ---- the thread ----------------------------------------------------------------- */

/* Closes the descriptors from `first` to before `end` that are none of the client's. */
static void close_others(struct ob_lease_client *client, int first, int end)
{
	if (first < end)
		ob_syscall_on(client->instance, SYS_close_range, (long)first, (long)end - 1, 0L);
}

/*
 * Gives the thread a table of descriptors that has the client's sockets only. The sockets were made
 * by the caller, so they are in its network namespace. On failure the table is still the program's.
 */
static int take_descriptors(struct ob_lease_client *client)
{
	int sockets[SOCKET_COUNT] = SOCKETS(client), first = 0, last = 0;
	long error;

	for (int i = 0; i < SOCKET_COUNT; i++)
		if (sockets[i] > last)
			last = sockets[i];
	error = ob_syscall_on(client->instance, SYS_close_range, (long)last + 1, (long)~0u,
			      2L /* CLOSE_RANGE_UNSHARE */);
	if (error)
		return (int)error;
	for (int fd = 0; fd <= last; fd++) {
		if (fd != sockets[0] && fd != sockets[1] && fd != sockets[2])
			continue;
		close_others(client, first, fd);
		first = fd + 1;
	}
	return 0;
}

static void set_ready(struct ob_lease_client *client)
{
	pthread_mutex_lock(&client->mutex);
	client->ready = true;
	pthread_cond_signal(&client->changed);
	pthread_mutex_unlock(&client->mutex);
}

/* Signals of the kernel are for the program's threads. */
static void block_signals(struct ob_lease_client *client)
{
	uint64_t all = ~0ull;

	ob_syscall_on(client->instance, SYS_rt_sigprocmask, 2L /* SIG_SETMASK */, &all, NULL,
		      (long)sizeof(all));
}

/* The client was stopped, the kernel has halted, or the interface is gone. */
static bool is_over(const struct ob_lease_client *client, int result)
{
	return is_stopped(client) || result == -ENODEV || result == -ENXIO;
}

/* The server ended the lease. The client asks for another one at once. */
static bool is_lease_over(int result)
{
	return result == -EACCES || result == -ETIMEDOUT;
}

static void warn(struct ob_lease_client *client, const char *text)
{
	char line[120];
	int length = snprintf(line, sizeof(line), "net %s: %s: %s", client->link.name,
			      client->protocol->word, text);

	ob_log_line(&client->instance->log, LEVEL_WARNING, line, (uint64_t)length);
}

static bool kernel_runs(struct ob_lease_client *client)
{
	return ob_syscall_on(client->instance, SYS_gettid) > 0;
}

/* Waits before another try. 0 or -errno. */
static int rest(struct ob_lease_client *client, unsigned int failures)
{
	uint64_t end = ob_lease_pause(client, failures), time = ob_milliseconds();

	if (is_stopped(client))
		return -EINTR;
	return (int)ob_syscall_on(client->instance, SYS_poll, NULL, 0L,
				  (long)(end > time ? end - time : 0));
}

/* Gets another lease after the loss of one. 1, or an error for which is_over() is true. */
static int reacquire(struct ob_lease_client *client, int result)
{
	if (is_lease_over(result))
		result = client->protocol->acquire(client, OB_NEVER);
	for (unsigned int failures = 0; result != 1 && !is_over(client, result); failures++) {
		result = rest(client, failures);
		if (!is_over(client, result))
			result = client->protocol->acquire(client, OB_NEVER);
	}
	return result;
}

static void keep_leases(struct ob_lease_client *client)
{
	int result = client->bound ? 1 : reacquire(client, -ETIMEDOUT);

	while (result == 1) {
		result = client->protocol->keep(client);
		if (is_stopped(client))
			client->protocol->release(client);
		client->protocol->remove(client);
		result = reacquire(client, result);
	}
	if (!is_stopped(client) && kernel_runs(client))
		warn(client, "the client has ended: the interface is gone");
}

static void run(void *argument)
{
	struct ob_lease_client *client = argument;
	int sockets[SOCKET_COUNT] = SOCKETS(client);

	block_signals(client);
	client->error = take_descriptors(client);
	if (client->error) {
		set_ready(client);
		return;
	}
	__atomic_store_n(&client->task, (int)ob_syscall_on(client->instance, SYS_gettid),
			 __ATOMIC_SEQ_CST);
	set_ready(client);
	keep_leases(client);
	close_sockets(client->instance, sockets);
	/* Another thread may get the number now. */
	__atomic_store_n(&client->task, 0, __ATOMIC_SEQ_CST);
}

static int start_thread(struct ob_lease_client *client)
{
	int error = ob_platform_thread_create(client->instance->host, run, client,
					      client->protocol->thread, &client->thread);

	if (error)
		return error;
	pthread_mutex_lock(&client->mutex);
	while (!client->ready)
		ob_condition_wait(&client->changed, &client->mutex);
	pthread_mutex_unlock(&client->mutex);
	/* It only returns: even if this gives up, the thread uses nothing of the client. */
	if (client->error)
		ob_platform_thread_join(client->instance->host, client->thread);
	return client->error;
}

/* ---- calls ------------------------------------------------------------------------ */

static int get_first_lease(struct ob_lease_client *client, unsigned int seconds, bool is_needed)
{
	const char *name = client->interface->name, *word = client->protocol->word;
	int result = ob_netlink_open(&client->netlink, client->instance, 0);

	if (!result)
		result = client->protocol->open(client);
	if (result)
		return fail(result, "%s: %s: no socket: %s", name, word, strerror(-result));
	result = client->protocol->acquire(client, ob_milliseconds() + seconds * 1000ull);
	if (!result && is_needed)
		return fail(-ETIMEDOUT, "%s: %s: no server has given a lease in %u seconds", name,
			    word, seconds);
	if (!result)
		warn(client, "no server has answered; the client goes on asking");
	if (result < 0)
		return fail(result, "%s: %s: %s", name, word,
			    ob_netlink_reason(&client->netlink, result));
	return 0;
}

void *ob_lease_new(const struct ob_lease_protocol *protocol, size_t bytes,
		   struct ob_instance *instance, struct ob_net_interface *interface,
		   const struct ob_link *link, int *error)
{
	struct ob_lease_client **place = &interface->clients[protocol->kind], *client = NULL;

	/* A client that has ended by itself is of no use. */
	if (*place && !__atomic_load_n(&(*place)->task, __ATOMIC_SEQ_CST))
		ob_lease_stop(interface, protocol->kind);
	if (*place)
		*error = fail(-EEXIST, "%s: %s: a client runs already", interface->name,
			      protocol->word);
	else if (!link->has_mac || link->flags & IFF_LOOPBACK)
		*error = fail(-EOPNOTSUPP, "%s: %s: this interface is no Ethernet",
			      interface->name, protocol->word);
	else if (!(client = calloc(1, bytes)))
		*error = fail(-ENOMEM, "%s: %s: %s", interface->name, protocol->word,
			      strerror(ENOMEM));
	if (!client)
		return NULL;
	client->protocol = protocol;
	client->instance = instance;
	client->interface = interface;
	client->link = *link;
	client->packet = client->udp = client->netlink.fd = -1;
	pthread_mutex_init(&client->mutex, NULL);
	pthread_cond_init(&client->changed, NULL);
	return client;
}

int ob_lease_start(struct ob_lease_client *client, unsigned int seconds, bool is_needed)
{
	struct ob_net_interface *interface = client->interface;
	struct ob_instance *instance = client->instance;
	int error = get_first_lease(client, seconds, is_needed);
	int sockets[SOCKET_COUNT] = SOCKETS(client);

	if (!error) {
		error = start_thread(client);
		if (error)
			fail(error, "%s: %s: no thread for the client: %s", interface->name,
			     client->protocol->word, strerror(-error));
	}
	if (error) {
		client->protocol->remove(client);
		free(client);
	} else {
		/* From here on the lease is the thread's, which has descriptors of its own. */
		interface->clients[client->protocol->kind] = client;
	}
	close_sockets(instance, sockets);
	return error;
}

bool ob_lease_stop(struct ob_net_interface *interface, enum ob_lease_kind kind)
{
	struct ob_lease_client *client = interface->clients[kind];
	struct ob_patience patience = ob_patience_begin();
	int task;

	if (!client)
		return true;
	__atomic_store_n(&client->stop, true, __ATOMIC_SEQ_CST);
	task = __atomic_load_n(&client->task, __ATOMIC_SEQ_CST);
	/* -EAGAIN: too many interrupts at once, which the kernel soon works off. */
	while (task && ob_interrupt_on(client->instance, task) == -EAGAIN &&
	       !ob_patience_is_over(&patience))
		sched_yield();
	interface->clients[kind] = NULL;
	if (!ob_platform_thread_join(client->instance->host, client->thread))
		return false;
	free(client);
	return true;
}

bool ob_lease_stop_all(struct ob_net_interface *interface)
{
	bool all = true;

	for (int kind = 0; kind < OB_LEASE_KINDS; kind++)
		all &= ob_lease_stop(interface, kind);
	return all;
}
