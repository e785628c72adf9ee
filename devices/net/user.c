// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rootless NAT: checks the request, and chooses passt or libslirp.
 *
 *   user_forward.c	the grammar of port forwards
 *   user_passt.c	frames to and from a passt process; user_passt_child.c starts and ends it
 *   user_slirp.c	libslirp on a thread of this process
 *   user_slirp_loop.c	timers and sockets of libslirp
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "deliver.h"
#include "user.h"

static int check(const struct ob_net_request *request, struct ob_user_options *options,
		 char *error, size_t size)
{
	int result;

	if (request->queues > 1) {
		snprintf(error, size, "net user: %u queues were given, and user has only one",
			 request->queues);
		return -EINVAL;
	}
	options->no_ipv6 = false;
	options->address6 = in6addr_any;
	options->no_host_loopback = false;
	options->mtu = request->mtu ? request->mtu : OB_USER_MTU_MOST;
	if (options->mtu < OB_USER_MTU_LEAST || options->mtu > OB_USER_MTU_MOST) {
		snprintf(error, size, "net user: mtu %u is not between %u and %u", options->mtu,
			 OB_USER_MTU_LEAST, OB_USER_MTU_MOST);
		return -EINVAL;
	}
	result = ob_user_forwards_parse(request->forwards, &options->forwards, error, size);
	for (int i = 0; !result && i < options->forwards.count; i++) {
		if (!options->forwards.list[i].socket)
			continue;
		snprintf(error, size, "net user: only a NAT in a process of its own takes sockets");
		result = -EINVAL;
	}
	return result;
}

static int open_one(ob_user_open *open, const char *package, struct ob_host *host,
		    struct ob_net_port *port, const struct ob_user_options *options,
		    struct ob_net_backend **backend, char *error, size_t size)
{
	int result = open(host, port, options, backend, error, size);

	if (result == -ENOENT)
		snprintf(error, size, "net user: %s is not installed; install the package %s",
			 package, package);
	return result;
}

/*
 * passt is faster. But Debian 12's repeats data to a kernel that has closed its own direction of a
 * connection, so passt comes second.
 */
static int open_either(struct ob_host *host, struct ob_net_port *port,
		       const struct ob_user_options *options, struct ob_net_backend **backend,
		       char *error, size_t size)
{
	int result = ob_user_slirp_open(host, port, options, backend, error, size);

	if (result != -ENOENT)
		return result;
	result = ob_user_passt_open(host, port, options, backend, error, size);
	if (result == -ENOENT)
		snprintf(error, size, "net user: neither libslirp nor passt is installed; "
			 "install the package libslirp0, or passt");
	return result;
}

int ob_net_user_open(struct ob_host *host, struct ob_net_port *port,
		     const struct ob_net_request *request, struct ob_net_backend **backend,
		     char *error, size_t error_size)
{
	struct ob_user_options options;
	int result = check(request, &options, error, error_size);

	if (!result)
		result = ob_user_forwards_check(&options.forwards, error, error_size);
	if (result)
		return result;
	if (!strcmp(request->target, "passt"))
		return open_one(ob_user_passt_open, "passt", host, port, &options, backend,
				error, error_size);
	if (!strcmp(request->target, "slirp"))
		return open_one(ob_user_slirp_open, "libslirp0", host, port, &options, backend,
				error, error_size);
	if (!*request->target)
		return open_either(host, port, &options, backend, error, error_size);
	snprintf(error, error_size, "net user: unknown kind \"%.32s\"; use user, user:passt or "
		 "user:slirp", request->target);
	return -EINVAL;
}
