// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs one back-end of hypercall/posix/net with a tap interface in the place of the kernel:
 *
 *	net_user_test TAP TARGET [forwards=...] [mtu=...] [pcap=FILE]
 *
 * TARGET is that of --net user, as in "" or "passt", or "pcap:FILE" for a replay. Prints "ready"
 * and the mtu, or the error. Ends with standard input.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "net_user_port.h"

static const char *option(char **arguments, const char *name)
{
	size_t length = strlen(name);

	for (; *arguments; arguments++)
		if (!strncmp(*arguments, name, length) && (*arguments)[length] == '=')
			return *arguments + length + 1;
	return NULL;
}

static int fail(const char *error)
{
	CHECK(*error && !strchr(error, '\n'));
	printf("error %s\n", error);
	return 1;
}

static void capture_frame(void *context, bool outbound, const struct iovec *pieces, int count,
			  size_t length)
{
	ob_net_pcap_frame(context, outbound, pieces, count, length);
}

int main(int count, char **arguments)
{
	struct ob_net_request request = { 0 };
	struct ob_net_backend *backend;
	struct ob_net_capture *capture = NULL;
	struct ob_net_port *port;
	char error[500] = "";
	const char *mtu, *pcap;
	ob_net_open *open;

	CHECK(count >= 3);
	request.target = arguments[2];
	request.forwards = option(arguments + 3, "forwards");
	mtu = option(arguments + 3, "mtu");
	request.mtu = mtu ? (uint32_t)atoi(mtu) : 0;
	port = port_new(arguments[1]);
	pcap = option(arguments + 3, "pcap");
	if (pcap && ob_net_pcap_open(NULL, pcap, "user", &capture, error, sizeof(error)))
		return fail(error);
	if (capture)
		port_set_capture(port, capture_frame, capture);
	open = ob_net_user_open;
	if (!strncmp(request.target, "pcap:", 5)) {
		open = ob_net_replay_open;
		request.target += 5;
	}
	if (open(NULL, port, &request, &backend, error, sizeof(error)))
		return fail(error);
	CHECK_EQUAL(backend->queues, 1);
	CHECK_EQUAL(backend->offloads, 0);
	if (backend->operations->set_features)
		CHECK_EQUAL(backend->operations->set_features(backend, 0), 0);
	printf("ready %u\n", backend->mtu);
	fflush(stdout);
	port_run(port, backend);
	backend->operations->close(backend);
	if (capture)
		ob_net_pcap_close(capture);
	printf("closed\n");
	return 0;
}
