// SPDX-License-Identifier: GPL-2.0-only
/* Offers ports of hubs to front-ends of vhost-user. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <outboard/net.h>

#include "error.h"
#include "net_options.h"

#define fail(error, ...) ob_error_set(OB_ERROR_NET, error, __VA_ARGS__)

/* The front-end's guest has an interface of its own, with addresses. */
static bool has_other_words(const struct ob_net_options *options)
{
	const struct ob_platform_net *device = &options->device;

	return device->has_mac || device->queues || device->forwards || device->capture ||
	       options->wanted != OB_NET_AS_IT_IS || options->address_count ||
	       options->gateways[0].family || options->gateways[1].family ||
	       options->servers.count || options->dhcp || options->dhcp6 || options->slaac ||
	       *options->name;
}

static int read_hub(const char *hub, struct ob_net_options *options)
{
	int error = ob_net_options_read_spec(hub, options);

	if (error)
		return error;
	if (strcmp(options->device.kind, "hub"))
		return fail(-EINVAL, "%.96s: only a hub can be offered, as hub:/run/lab", hub);
	if (has_other_words(options))
		return fail(-EINVAL, "%.96s: a hub that is offered has the word mtu only", hub);
	return 0;
}

static int listen_for(const struct ob_platform_net_serve *from, struct ob_net_server **server)
{
	char reason[OB_ERROR_BYTES];
	int error = ob_platform_net_serve_listen(from, server, reason, sizeof(reason));

	return error ? fail(error, "%s", reason) : 0;
}

int ob_net_server_new(const char *hub, const char *socket,
		      void (*log)(void *context, const char *line), void *context,
		      struct ob_net_server **server)
{
	struct ob_net_options *options;
	int error;

	ob_error_clear(OB_ERROR_NET);
	if (!hub || !socket || !*socket || !server)
		return fail(-EINVAL, "no hub, or no path of a socket");
	options = malloc(sizeof(*options));
	if (!options)
		return fail(-ENOMEM, "%s", strerror(ENOMEM));
	error = read_hub(hub, options);
	if (!error)
		error = listen_for(&(struct ob_platform_net_serve){
			.hub = options->device.target,
			.socket = socket,
			.mtu = options->device.mtu,
			.log = log,
			.context = context,
		}, server);
	free(options);
	return error;
}

int ob_net_server_start(struct ob_net_server *server, int opener)
{
	char reason[OB_ERROR_BYTES];
	int error;

	ob_error_clear(OB_ERROR_NET);
	error = ob_platform_net_serve_start(server, opener, reason, sizeof(reason));
	return error ? fail(error, "%s", reason) : 0;
}

void ob_net_server_open_files(const struct ob_net_server *server, int socket)
{
	ob_platform_net_serve_open(server, socket);
}

void ob_net_server_free(struct ob_net_server *server)
{
	if (server)
		ob_platform_net_serve_end(server);
}
