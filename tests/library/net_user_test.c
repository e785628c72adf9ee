// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs one back-end of devices/net with a tap interface in the place of the kernel:
 *
 *	net_user_test TAP TARGET [forwards=...] [mtu=...] [pcap=FILE] [send=COUNT] [fork=1]
 *	              [descriptors=COUNT]
 *
 * TAP is "-" for none. TARGET is that of --net user, as in "" or "passt", or "pcap:FILE" for a
 * replay. Prints "ready" and the mtu, or the error. Sends COUNT frames, and prints how many the
 * back-end took; each has its number behind the Ethernet header, and then bytes that the number
 * determines. The back-end may open COUNT descriptors. Ends with standard input.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "net_host.h"
#include "net_port_tap.h"

static const char *option(char **arguments, const char *name)
{
	size_t length = strlen(name);

	for (; *arguments; arguments++)
		if (!strncmp(*arguments, name, length) && (*arguments)[length] == '=')
			return *arguments + length + 1;
	return NULL;
}

static int fail(struct port_tap *port, struct ob_net_capture *capture, const char *error)
{
	CHECK(*error && !strchr(error, '\n'));
	printf("error %s\n", error);
	if (capture)
		ob_net_pcap_close(capture);
	port_tap_free(port);
	return 1;
}

static void capture_frame(void *context, bool outbound, const struct iovec *pieces, int count,
			  size_t length)
{
	ob_net_pcap_frame(context, outbound, pieces, count, length);
}

static void send_frames(struct port_tap *port, struct ob_net_backend *backend, long count)
{
	static unsigned char frame[65535];
	long taken = 0;

	for (uint32_t i = 0; i < count; i++) {
		size_t length = i < 10 ? 60 : 50000 + i * 7919u % 15000;

		memset(frame, (unsigned char)i, length);
		memcpy(frame + 14, &i, sizeof(i));
		if (!port_tap_send(port, backend, frame, length))
			taken++;
		/* After the first frames, which are too many: the buffers empty and fill again. */
		if (i >= 999 && i % 200 == 199)
			usleep(500000);
	}
	printf("sent %ld\n", taken);
	fflush(stdout);
}

/* The parent's back-end goes on. */
static void fork_once(struct ob_net_backend *backend)
{
	pid_t child = fork();
	int status;

	if (!child) {
		backend->operations->forked(backend);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Opens a back-end, which may open so many descriptors; without a count, any number. */
static int open_limited(ob_net_open *open, const char *count, struct port_tap *port,
			const struct ob_net_request *request, struct ob_net_backend **backend,
			char *error, size_t size)
{
	struct rlimit before, limit;
	int next = dup(0), result;

	CHECK(next >= 0 && !close(next) && !getrlimit(RLIMIT_NOFILE, &before));
	limit = before;
	if (count)
		limit.rlim_cur = (rlim_t)next + (rlim_t)atol(count);
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	result = open(NULL, &port->port, request, backend, error, size);
	CHECK(!setrlimit(RLIMIT_NOFILE, &before));
	return result;
}

int main(int count, char **arguments)
{
	static struct port_tap port;
	struct ob_net_request request = { 0 };
	struct ob_net_backend *backend;
	struct ob_net_capture *capture = NULL;
	char error[500] = "";
	const char *mtu, *pcap, *limit;
	ob_net_open *open;

	CHECK(count >= 3);
	request.target = arguments[2];
	request.forwards = option(arguments + 3, "forwards");
	mtu = option(arguments + 3, "mtu");
	request.mtu = mtu ? (uint32_t)atoi(mtu) : 0;
	net_host_output = stdout;
	port_tap_init(&port, arguments[1]);
	pcap = option(arguments + 3, "pcap");
	if (pcap && ob_net_pcap_open(NULL, pcap, "user", &capture, error, sizeof(error)))
		return fail(&port, capture, error);
	port.capture = capture ? capture_frame : NULL;
	port.capture_context = capture;
	open = ob_net_user_open;
	if (!strncmp(request.target, "pcap:", 5)) {
		open = ob_net_replay_open;
		request.target += 5;
	}
	limit = option(arguments + 3, "descriptors");
	if (open_limited(open, limit, &port, &request, &backend, error, sizeof(error)))
		return fail(&port, capture, error);
	CHECK_EQUAL(backend->queues, 1);
	CHECK_EQUAL(backend->offloads, 0);
	if (backend->operations->set_features)
		CHECK_EQUAL(backend->operations->set_features(backend, 0), 0);
	printf("ready %u\n", backend->mtu);
	fflush(stdout);
	if (option(arguments + 3, "fork"))
		fork_once(backend);
	if (option(arguments + 3, "send"))
		send_frames(&port, backend, atol(option(arguments + 3, "send")));
	port_tap_run(&port, backend);
	backend->operations->close(backend);
	if (capture)
		ob_net_pcap_close(capture);
	port_tap_free(&port);
	printf("closed\n");
	return 0;
}
