// SPDX-License-Identifier: GPL-2.0-only
/* Opens a network interface by its kind: the back-end, the capture, the device in the table. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "vhost_user.h"

struct kind {
	const char *name;
	ob_net_open *open;		/* NULL: the kind is a device of its own */
	unsigned int queues_most;
};

static const struct kind kinds[] = {
	{ "hub", ob_net_hub_open, 1 },
	{ "pcap", ob_net_replay_open, 1 },
	{ "stream", ob_net_stream_open, 1 },
	{ "tap", ob_net_tap_open, OB_NET_QUEUES_MOST },
	{ "user", ob_net_user_open, 1 },
	{ "vhost-user", NULL, OB_NET_QUEUES_MOST },
};

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

/* An interface while it is being opened. */
struct opening {
	struct ob_net_port *port;
	struct ob_net_backend *backend;
	struct ob_net_capture *capture;
};

static int open_parts(struct ob_host *host, const struct kind *kind,
		      const struct ob_platform_net *net, struct opening *opening, char *error,
		      size_t size)
{
	struct ob_net_request request = {
		.target = net->target,
		.mtu = net->mtu,
		.queues = net->queues,
		.forwards = net->forwards,
	};
	int result;

	opening->port = ob_net_port_new(host, net->mac, kind->queues_most);
	if (!opening->port) {
		snprintf(error, size, "%s: the host has no memory", kind->name);
		return -ENOMEM;
	}
	result = kind->open(host, opening->port, &request, &opening->backend, error, size);
	if (result || !net->capture)
		return result;
	/* Last: a failure before this leaves the contents of the file alone. */
	return ob_net_pcap_open(host, net->capture, kind->name, &opening->capture, error, size);
}

static int insert(struct ob_host *host, struct ob_virtio_device *device, char *error, size_t size)
{
	int number = ob_virtio_insert(host, device);

	if (number < 0) {
		snprintf(error, size, "the kernel has %d virtio devices already, its limit",
			 OB_VIRTIO_DEVICES_MOST);
		device->operations->close(device);
	}
	return number;
}

/* A device whose frames pass through its back-end alone. */
static int open_device(struct ob_host *host, const struct ob_platform_net *net, char *error,
		       size_t size)
{
	struct ob_virtio_device *device;
	int result;

	if (net->capture) {
		snprintf(error, size, "pcap=%.100s: the frames of a %s interface pass through its "
			 "back-end only; capture them there", net->capture, net->kind);
		return -EINVAL;
	}
	result = ob_vhost_user_open(host, net, &device, error, size);
	return result ? result : insert(host, device, error, size);
}

void ob_platform_net_done(struct ob_host *host, uint32_t number)
{
	ob_virtio_withdraw(host, number);
}

/* The caller finds the kernel's link by the address. */
static int choose_mac(struct ob_host *host, struct ob_platform_net *net, char *error, size_t size)
{
	int result = net->has_mac ? 0 : ob_net_choose_mac(host, net->mac);

	if (result)
		snprintf(error, size, "%s: no random MAC address: %s", net->kind,
			 strerror(-result));
	else
		net->has_mac = true;
	return result;
}

int ob_platform_net_open(struct ob_host *host, struct ob_platform_net *net, char *error,
			 size_t size)
{
	const struct kind *kind = find_kind(net->kind);
	struct opening opening = { .port = NULL };
	int result;

	if (!kind) {
		snprintf(error, size,
			 "%s: no such kind of interface; there are hub, pcap, stream, tap, "
			 "user, vhost-user", net->kind);
		return -EINVAL;
	}
	result = choose_mac(host, net, error, size);
	if (result)
		return result;
	if (!kind->open)
		return open_device(host, net, error, size);
	result = open_parts(host, kind, net, &opening, error, size);
	if (!result)
		return insert(host, ob_net_port_complete(opening.port, opening.backend,
							 opening.capture), error, size);
	if (opening.backend)
		opening.backend->operations->close(opening.backend);
	if (opening.port)
		ob_net_port_free(opening.port);
	return result;
}
