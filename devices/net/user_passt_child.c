// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rootless NAT by passt: starts and ends the process.
 *
 * The connection is a socket pair, and passt ends when its side has no peer. So passt ends with
 * this process, also if this process is killed. passt stays in the foreground: then it is a child
 * whose end can be waited for. It does not report that it is ready, therefore the first frame is a
 * question that passt answers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <arpa/inet.h>

#include "clock.h"
#include "internal.h"
#include "raw.h"
#include "user_passt.h"

/* The numbers of the descriptors in the child. */
#define CHILD_MESSAGES 2
#define CHILD_SOCKET 3

#define SOCKET_BYTES (16 << 20)

#define START_MSEC 10000
#define END_MSEC 1000
#define NSEC_PER_MSEC 1000000ull

static bool is_program(const char *path)
{
	struct stat status;

	return !stat(path, &status) && S_ISREG(status.st_mode) && !access(path, X_OK);
}

/* Only absolute entries of PATH: a relative one means another program in another directory. */
static bool find_program(const char *name, char *path, size_t size)
{
	const char *from = getenv("PATH");

	if (!from)
		from = "/usr/local/bin:/usr/bin:/bin";
	for (;;) {
		int length = (int)strcspn(from, ":");
		int written = snprintf(path, size, "%.*s/%s", length, from, name);

		if (*from == '/' && written > 0 && (size_t)written < size && is_program(path))
			return true;
		if (!from[length])
			return false;
		from += length + 1;
	}
}

/* ---- arguments ------------------------------------------------------------ */

#define ARGUMENTS_MOST (32 + 2 * OB_USER_FORWARDS_MOST)

struct arguments {
	char *list[ARGUMENTS_MOST + 1];
	int count;
	char text[ARGUMENTS_MOST * 24 + OB_USER_FORWARDS_MOST * INET6_ADDRSTRLEN];
	size_t length;
};

/* The arrays are large enough for all that add_options() and add_forward() add. */
__attribute__((format(printf, 2, 3)))
static void add(struct arguments *arguments, const char *format, ...)
{
	char *text = arguments->text + arguments->length;
	va_list values;

	va_start(values, format);
	arguments->length += (size_t)vsnprintf(text, sizeof(arguments->text) - arguments->length,
					       format, values) + 1;
	va_end(values);
	arguments->list[arguments->count++] = text;
}

static void add_options(struct arguments *arguments, uint32_t mtu)
{
	static const char *const fixed[] = {
		"passt", "--foreground", "--quiet",
		"--address", OB_USER_ADDRESS, "--netmask", OB_USER_PREFIX,
		"--gateway", OB_USER_GATEWAY, "--dns-forward", OB_USER_DNS,
		"--address", OB_USER_ADDRESS6, "--gateway", OB_USER_GATEWAY6,
		"--dns-forward", OB_USER_DNS6,
	};

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		add(arguments, "%s", fixed[i]);
	add(arguments, "--mtu");
	add(arguments, "%u", mtu);
	add(arguments, "--fd");
	add(arguments, "%d", CHILD_SOCKET);
}

static void add_forward(struct arguments *arguments, const struct ob_user_forward *forward)
{
	char address[INET6_ADDRSTRLEN] = "";
	const char *slash = "";

	if (forward->family != AF_UNSPEC) {
		inet_ntop(forward->family, &forward->address, address, sizeof(address));
		slash = "/";
	}
	add(arguments, forward->udp ? "--udp-ports" : "--tcp-ports");
	add(arguments, "%s%s%u:%u", address, slash, forward->host_port, forward->guest_port);
}

static void make_arguments(struct arguments *arguments, const struct ob_user_options *options)
{
	bool has_udp = false;

	arguments->count = 0;
	arguments->length = 0;
	add_options(arguments, options->mtu);
	for (int i = 0; i < options->forwards.count; i++) {
		add_forward(arguments, &options->forwards.list[i]);
		has_udp |= options->forwards.list[i].udp;
	}
	/* Without this, passt forwards UDP ports with the numbers of the TCP ports. */
	if (!has_udp) {
		add(arguments, "--udp-ports");
		add(arguments, "none");
	}
	arguments->list[arguments->count] = NULL;
}

/* ---- start ---------------------------------------------------------------- */

/* The child gets three standard descriptors and the socket. */
static int set_descriptors(posix_spawn_file_actions_t *actions, int socket, int messages)
{
	int error;

	error = posix_spawn_file_actions_adddup2(actions, messages, CHILD_MESSAGES);
	if (!error)
		error = posix_spawn_file_actions_adddup2(actions, socket, CHILD_SOCKET);
	if (!error)
		error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
	if (!error)
		error = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
	if (!error)
		error = posix_spawn_file_actions_addclosefrom_np(actions, CHILD_SOCKET + 1);
	return error;
}

/* A session of its own: the terminal's signals are not for passt. */
static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none, all;
	int error;

	sigemptyset(&none);
	sigfillset(&all);
	error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK |
					 POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
	if (!error)
		error = posix_spawnattr_setsigmask(attributes, &none);
	if (!error)
		error = posix_spawnattr_setsigdefault(attributes, &all);
	return error;
}

/* Descriptors of the parent that are above those of the child do not overwrite each other. */
static int spawn(const char *path, struct arguments *arguments, int socket, int messages,
		 pid_t *pid)
{
	char *environment[] = { NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int error;

	error = posix_spawn_file_actions_init(&actions);
	if (error)
		return -error;
	error = posix_spawnattr_init(&attributes);
	if (!error) {
		error = set_descriptors(&actions, socket, messages);
		if (!error)
			error = set_attributes(&attributes);
		if (!error)
			error = posix_spawn(pid, path, &actions, &attributes, arguments->list,
					    environment);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return -error;
}

/* Moves both descriptors above those of the child. */
static int move_up(int pair[2])
{
	for (int i = 0; i < 2; i++) {
		int moved = raw_dup_above(pair[i], CHILD_SOCKET + 1);

		if (moved < 0)
			return -errno;
		raw_close(pair[i]);
		pair[i] = moved;
	}
	return 0;
}

static void close_pair(int pair[2])
{
	raw_close(pair[0]);
	raw_close(pair[1]);
}

static int make_pair(int pair[2], bool stream)
{
	int result;

	if (stream ? raw_socketpair(SOCK_STREAM | SOCK_CLOEXEC, pair)
		   : raw_pipe(pair, O_CLOEXEC))
		return -errno;
	result = move_up(pair);
	if (result)
		close_pair(pair);
	return result;
}

/*
 * passt drops frames that its side has no buffer for, and a TCP connection becomes slow then. The
 * host reduces the size to its limit (net.core.wmem_max).
 */
static void enlarge_buffers(const int stream[2])
{
	int size = SOCKET_BYTES;

	for (int i = 0; i < 2; i++)
		setsockopt(stream[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static int spawn_with_pairs(const char *path, const struct ob_user_options *options,
			    struct ob_passt_child *child)
{
	struct arguments *arguments = malloc(sizeof(*arguments));
	int stream[2], pipe[2], result;

	if (!arguments)
		return -ENOMEM;
	make_arguments(arguments, options);
	result = make_pair(stream, true);
	if (result)
		goto free_arguments;
	enlarge_buffers(stream);
	result = make_pair(pipe, false);
	if (result)
		goto close_stream;
	result = spawn(path, arguments, stream[1], pipe[1], &child->pid);
	if (result) {
		close_pair(pipe);
		goto close_stream;
	}
	raw_close(stream[1]);
	raw_close(pipe[1]);
	child->socket = stream[0];
	child->messages = pipe[0];
	free(arguments);
	return 0;

close_stream:
	close_pair(stream);
free_arguments:
	free(arguments);
	return result;
}

/* ---- readiness ------------------------------------------------------------ */

#define PROBE_MAC 0x02, 0, 0, 0, 0, 0x01

/* An ARP request for the address of the gateway, from an address that nobody uses. */
static const unsigned char probe4[] = {
	0, 0, 0, 42,
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, PROBE_MAC, 0x08, 0x06,
	0, 1, 0x08, 0, 6, 4, 0, 1,
	PROBE_MAC, 10, 0, 2, 254, 0, 0, 0, 0, 0, 0, 10, 0, 2, 2,
};

/* A router solicitation from fe80::1, for a host that has IPv6 only. */
static const unsigned char probe6[] = {
	0, 0, 0, 62,
	0x33, 0x33, 0, 0, 0, 2, PROBE_MAC, 0x86, 0xdd,
	0x60, 0, 0, 0, 0, 8, 58, 255,
	0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
	0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
	133, 0, 0x7d, 0x36, 0, 0, 0, 0,
};

static uint64_t now(void)
{
	return ob_net_clock(CLOCK_MONOTONIC) / NSEC_PER_MSEC;
}

static int left_until(uint64_t end)
{
	uint64_t time = now();

	return time < end ? (int)(end - time) : 0;
}

/* True: passt has answered. False: it has ended, or the time is over. */
static bool wait_for_answer(struct ob_passt_child *child)
{
	struct pollfd answer = { child->socket, POLLIN, 0 };
	uint64_t end = now() + START_MSEC;
	char byte;

	if (raw_send(child->socket, probe4, sizeof(probe4), MSG_NOSIGNAL) < 0 ||
	    raw_send(child->socket, probe6, sizeof(probe6), MSG_NOSIGNAL) < 0)
		return false;
	while (raw_poll(&answer, 1, left_until(end)) < 0)
		if (errno != EINTR)
			return false;
	return raw_recv(child->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

/* ---- messages and end ----------------------------------------------------- */

/* A line that is about passt's logging, and says nothing about the network. */
static bool is_noise(const char *line)
{
	return !*line || strstr(line, " bytes to syslog") || strstr(line, "Don't run as root");
}

size_t ob_passt_child_read_messages(struct ob_passt_child *child, char *text, size_t size)
{
	struct pollfd ready = { child->messages, POLLIN, 0 };
	char bytes[1024], *line, *rest;
	size_t length = 0;
	ssize_t count;

	*text = 0;
	if (raw_poll(&ready, 1, 0) <= 0 || !ready.revents)
		return 0;
	count = raw_read(child->messages, bytes, sizeof(bytes) - 1);
	if (count <= 0)
		return 0;
	bytes[count] = 0;
	for (line = strtok_r(bytes, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (is_noise(line))
			continue;
		length += (size_t)snprintf(text + length, size - length, "%s%s",
					   length ? "; " : "", line);
		if (length >= size)
			return size - 1;
	}
	return length;
}

static void sleep_a_while(struct ob_host *host)
{
	uint32_t word = 0;

	ob_host_wait(host, &word, 0, NSEC_PER_MSEC);
}

int ob_passt_child_end(struct ob_passt_child *child)
{
	int status = -1;
	pid_t found = 0;

	/* Its number may be that of another child now. */
	if (!child->pid)
		return -1;
	shutdown(child->socket, SHUT_RDWR);
	for (int i = 0; i < END_MSEC; i++) {
		found = raw_waitpid(child->pid, &status, WNOHANG);
		if (found)
			break;
		sleep_a_while(child->host);
	}
	if (!found) {
		kill(child->pid, SIGKILL);
		do {
			found = raw_waitpid(child->pid, &status, 0);
		} while (found < 0 && errno == EINTR);
	}
	child->pid = 0;
	return found > 0 ? status : -1;
}

void ob_passt_child_close_descriptors(struct ob_passt_child *child)
{
	if (child->socket >= 0)
		raw_close(child->socket);
	if (child->messages >= 0)
		raw_close(child->messages);
}

static int explain(struct ob_passt_child *child, char *error, size_t size)
{
	char text[400];
	int status = ob_passt_child_end(child);

	if (!ob_passt_child_read_messages(child, text, sizeof(text)))
		snprintf(text, sizeof(text), "it gives no reason (wait status %#x)",
			 (unsigned int)status);
	snprintf(error, size, "net user: passt cannot start: %s", text);
	ob_passt_child_close_descriptors(child);
	return -EIO;
}

int ob_passt_child_start(struct ob_host *host, const struct ob_user_options *options,
			 struct ob_passt_child *child, char *error, size_t error_size)
{
	char path[4096];
	int result;

	if (!find_program("passt", path, sizeof(path)))
		return -ENOENT;
	child->host = host;
	result = spawn_with_pairs(path, options, child);
	if (result) {
		snprintf(error, error_size, "net user: cannot start %.200s: %s", path,
			 strerrordesc_np(-result));
		return result == -ENOENT ? -EIO : result;
	}
	if (wait_for_answer(child))
		return 0;
	return explain(child, error, error_size);
}
