// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network interfaces: the steps that configure a link, each of which can be undone: name, MAC
 * address, MTU, up and down, addresses, default routes.
 */
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/syscall.h>

#include "clock.h"
#include "instance.h"
#include "net_job.h"

/* How long a call waits until a new interface has a link, in milliseconds. */
#define LINK_PATIENCE 1000
/* Between two looks at it, in nanoseconds: the first pause, and the last one. */
#define LINK_PAUSE 50000
#define LINK_PAUSE_MOST 6400000

#define fail(error, ...) ob_error_set(OB_ERROR_NET, error, __VA_ARGS__)

static struct ob_net_change *changed(struct ob_net_job *job, int kind)
{
	struct ob_net_change *change = &job->changes[job->change_count++];

	change->kind = kind;
	return change;
}

static void undo_change(struct ob_net_job *job, const struct ob_net_change *change)
{
	const struct ob_link *before = &job->before;
	struct ob_netlink *netlink = &job->netlink;

	switch (change->kind) {
	case CHANGED_FLAGS:
		ob_netlink_link_set_up(netlink, before->index, before->flags & IFF_UP);
		break;
	case CHANGED_NAME:
		ob_netlink_link_set_name(netlink, before->index, before->name);
		break;
	case CHANGED_MAC:
		ob_netlink_link_set_mac(netlink, before->index, before->mac);
		break;
	case CHANGED_MTU:
		ob_netlink_link_set_mtu(netlink, before->index, before->mtu);
		break;
	case CHANGED_ADDRESS:
		ob_netlink_address_remove(netlink, before->index, &change->address);
		break;
	case CHANGED_ROUTE:
		ob_netlink_route_remove(netlink, before->index, &change->route);
		break;
	}
}

void ob_net_link_undo(struct ob_net_job *job)
{
	while (job->change_count)
		undo_change(job, &job->changes[--job->change_count]);
}

/* This step is never undone: by then, others may use loopback. */
static int raise_loopback(struct ob_net_job *job)
{
	struct ob_link loopback;
	int error = ob_netlink_link_get(&job->netlink, "lo", &loopback);

	/* A program may have renamed it. */
	if (error == -ENODEV || (!error && loopback.flags & IFF_UP))
		return 0;
	if (!error)
		error = ob_netlink_link_set_up(&job->netlink, loopback.index, true);
	return error ? ob_net_fail_step(job, error, "cannot bring %s up", "lo") : 0;
}

static int set_name(struct ob_net_job *job)
{
	const char *name = job->options.name;
	int error;

	if (!*name || !strcmp(name, job->before.name))
		return 0;
	error = ob_netlink_link_set_name(&job->netlink, job->before.index, name);
	if (error)
		return ob_net_fail_step(job, error, "name=%s", name);
	changed(job, CHANGED_NAME);
	return 0;
}

static int set_mac(struct ob_net_job *job)
{
	const struct ob_platform_net *device = &job->options.device;
	int error;

	if (!device->has_mac ||
	    (job->before.has_mac && !memcmp(device->mac, job->before.mac, sizeof(device->mac))))
		return 0;
	error = ob_netlink_link_set_mac(&job->netlink, job->before.index, device->mac);
	if (error)
		return ob_net_fail_step(job, error, "%s", "the MAC address cannot be changed");
	changed(job, CHANGED_MAC);
	return 0;
}

static int set_mtu(struct ob_net_job *job)
{
	uint32_t mtu = job->options.device.mtu;
	int error;

	if (!mtu || mtu == job->before.mtu)
		return 0;
	error = ob_netlink_link_set_mtu(&job->netlink, job->before.index, mtu);
	if (error)
		return ob_net_fail_step(job, error, "mtu=%u", mtu);
	changed(job, CHANGED_MTU);
	return 0;
}

/* Addresses, routes and leases are of use only on an interface that is up. */
static bool wants_up(const struct ob_net_options *options)
{
	if (options->wanted != OB_NET_AS_IT_IS)
		return options->wanted == OB_NET_UP;
	return options->address_count || options->gateways[0].family ||
	       options->gateways[1].family || options->dhcp || options->dhcp6 ||
	       options->slaac;
}

static int raise_link(struct ob_net_job *job)
{
	int error;

	if (!wants_up(&job->options))
		return 0;
	error = strcmp(job->before.name, "lo") ? raise_loopback(job) : 0;
	if (error || job->before.flags & IFF_UP)
		return error;
	error = ob_netlink_link_set_up(&job->netlink, job->before.index, true);
	if (error)
		return ob_net_fail_step(job, error, "cannot bring it %s", "up");
	changed(job, CHANGED_FLAGS);
	return 0;
}

/* Linux drops IPv6 addresses and routes then. */
int ob_net_link_lower(struct ob_net_job *job)
{
	int error;

	if (job->options.wanted != OB_NET_DOWN)
		return 0;
	ob_lease_stop_all(job->interface);
	error = ob_netlink_link_set_up(&job->netlink, job->before.index, false);
	return error ? ob_net_fail_step(job, error, "cannot bring it %s", "down") : 0;
}

static int add_addresses(struct ob_net_job *job)
{
	char text[OB_NET_ADDRESS_TEXT];

	for (int i = 0; i < job->options.address_count; i++) {
		const struct ob_net_address *address = &job->options.addresses[i];
		int error = ob_netlink_address_add(&job->netlink, job->before.index, address,
						   OB_NETLINK_FOR_EVER, OB_NETLINK_FOR_EVER,
						   false);

		if (error)
			return ob_net_fail_step(job, error, "ip=%s",
						ob_net_address_text(address, true, text));
		changed(job, CHANGED_ADDRESS)->address = *address;
	}
	return 0;
}

static int add_routes(struct ob_net_job *job)
{
	char text[OB_NET_ADDRESS_TEXT];

	for (int i = 0; i < 2; i++) {
		const struct ob_net_address *gateway = &job->options.gateways[i];
		struct ob_route route = { .destination.family = gateway->family,
					  .gateway = *gateway };
		int error;

		if (!gateway->family)
			continue;
		error = ob_netlink_route_add(&job->netlink, job->before.index, &route);
		if (error)
			return ob_net_fail_step(job, error, "gw=%s",
						ob_net_address_text(gateway, false, text));
		changed(job, CHANGED_ROUTE)->route = route;
	}
	return 0;
}

/*
 * A worker of Linux's driver asks the device whether there is a link, and until then frames are
 * lost. Asking for the link waits for what the worker leaves to another one: rtnl_getlink() in
 * net/core/rtnetlink.c. A back-end may have no link for long, which is no error.
 */
static int await_link(struct ob_net_job *job)
{
	const char *name = *job->options.name ? job->options.name : job->before.name;
	uint64_t end = ob_milliseconds() + LINK_PATIENCE;
	struct timespec pause = { .tv_nsec = LINK_PAUSE };
	struct ob_link link;

	if (!job->interface->is_added || !wants_up(&job->options))
		return 0;
	while (!ob_netlink_link_get(&job->netlink, name, &link) && !(link.flags & IFF_RUNNING) &&
	       ob_milliseconds() < end) {
		ob_syscall_on(job->instance, SYS_nanosleep, &pause, NULL);
		if (pause.tv_nsec < LINK_PAUSE_MOST)
			pause.tv_nsec *= 2;
	}
	return 0;
}

int ob_net_link_configure(struct ob_net_job *job)
{
	static int (*const steps[])(struct ob_net_job *) = {
		set_name, set_mac, set_mtu, raise_link, await_link, add_addresses, add_routes,
	};
	int error = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !error; i++)
		error = steps[i](job);
	if (!error && *job->options.name)
		strcpy(job->interface->name, job->options.name);
	return error;
}
