// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network interfaces: addresses from the network, by DHCP or by announcements of routers.
 *
 * A router's announcement may ask hosts to use DHCPv6: flag M (managed) for an address, flag O
 * (other) for name servers only. The word slaac follows it. The word dhcp6 asks a server whatever
 * the router announces.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "clock.h"
#include "dhcp.h"
#include "dhcp6.h"
#include "instance.h"
#include "net_job.h"

#define fail(error, ...) ob_error_set(OB_ERROR_NET, error, __VA_ARGS__)

/* Seconds to wait for name servers that a router has announced. Later ones are used, too. */
#define SERVERS_SECONDS 3

#define LEVEL_WARNING 4

/* ---- settings ------------------------------------------------------------------ */

/* Opens a file of the kernel's /proc/sys, wherever the program's root is. */
static long open_setting(struct ob_instance *instance, const char *path)
{
	long context, tree, file = -ENOSYS;

	context = ob_syscall_on(instance, SYS_fsopen, "proc", 1L /* FSOPEN_CLOEXEC */);
	if (context < 0)
		return context;
	tree = ob_syscall_on(instance, SYS_fsconfig, context, 6L /* FSCONFIG_CMD_CREATE */, NULL,
			     NULL, 0L);
	if (!tree)
		tree = ob_syscall_on(instance, SYS_fsmount, context, 1L /* FSMOUNT_CLOEXEC */, 0L);
	ob_syscall_on(instance, SYS_close, context);
	if (tree < 0)
		return tree;
	file = ob_syscall_on(instance, SYS_openat, tree, path, (long)(O_WRONLY | O_CLOEXEC));
	ob_syscall_on(instance, SYS_close, tree);
	return file;
}

/* Announcements of routers are used even if the kernel forwards packets. */
static int accept_announcements(struct ob_net_job *job, const char *word)
{
	char path[64];
	long file, error;

	snprintf(path, sizeof(path), "sys/net/ipv6/conf/%s/accept_ra", job->interface->name);
	file = open_setting(job->instance, path);
	if (file < 0)
		return fail((int)file, "%s: %s: cannot write the setting accept_ra: %s",
			    job->interface->name, word, strerror(-(int)file));
	error = ob_syscall_on(job->instance, SYS_write, file, "2", 1L);
	ob_syscall_on(job->instance, SYS_close, file);
	return error < 0 ? fail((int)error, "%s: %s: cannot write the setting accept_ra: %s",
				job->interface->name, word, strerror(-(int)error)) : 0;
}

/* ---- DHCP ---------------------------------------------------------------------- */

/* The name, the MAC address and the MTU may be new. */
static int read_link(struct ob_net_job *job, const char *word, struct ob_link *link)
{
	int error = ob_netlink_link_get(&job->netlink, job->interface->name, link);

	return error ? ob_net_fail_step(job, error, "%s", word) : 0;
}

static int configure_by_dhcp(struct ob_net_job *job)
{
	struct ob_link link;
	int error;

	if (!job->options.dhcp)
		return 0;
	error = read_link(job, "dhcp", &link);
	if (error)
		return error;
	error = ob_dhcp_start(job->instance, job->interface, &link, job->options.dhcp,
			      job->options.device.mtu);
	job->started[OB_LEASE_IPV4] = !error;
	return error;
}

static int start_dhcp6(struct ob_net_job *job, unsigned int seconds, enum ob_dhcp6_mode mode)
{
	struct ob_link link;
	int error = read_link(job, "dhcp6", &link);

	if (error)
		return error;
	error = ob_dhcp6_start(job->instance, job->interface, &link, seconds, mode);
	job->started[OB_LEASE_IPV6] = !error;
	return error;
}

static int configure_by_dhcp6(struct ob_net_job *job)
{
	int error;

	if (!job->options.dhcp6)
		return 0;
	/* Routes come from routers. */
	error = accept_announcements(job, "dhcp6");
	return error ? error : start_dhcp6(job, job->options.dhcp6, OB_DHCP6_ADDRESS);
}

int ob_net_lease_configure(struct ob_net_job *job)
{
	int error = configure_by_dhcp(job);

	return error ? error : configure_by_dhcp6(job);
}

/* ---- addresses from routers --------------------------------------------------- */

/* 1: the link has a usable address that a router has announced; 0; -errno. */
static int has_announced_address(struct ob_net_job *job)
{
	struct ob_net_address unused;

	return ob_netlink_addresses(&job->netlink, job->before.index, true, &unused, 1);
}

/* 1: a router has announced an address, or that addresses come by DHCPv6; 0; -errno. */
static int has_router(struct ob_net_job *job, uint32_t *flags)
{
	struct ob_link link;
	int error = read_link(job, "slaac", &link), count;

	if (error)
		return error;
	*flags = link.router_flags;
	count = has_announced_address(job);
	if (count < 0)
		return ob_net_fail_step(job, count, "%s", "slaac");
	return count || link.router_flags & OB_ROUTER_MANAGED;
}

static int wait_for_router(struct ob_net_job *job, struct ob_netlink *changes, uint64_t end,
			   uint32_t *flags)
{
	int found;

	while (!(found = has_router(job, flags))) {
		uint64_t now = ob_milliseconds();
		int error = now < end ? ob_netlink_wait(changes, (unsigned int)(end - now))
				      : -ETIMEDOUT;

		if (error == -ETIMEDOUT)
			return fail(error, "%s: slaac: no router has announced a network in %u "
				    "seconds",
				    job->interface->name, job->options.slaac);
		if (error)
			return fail(error, "%s: slaac: %s", job->interface->name,
				    strerror(-error));
	}
	return found < 0 ? found : 0;
}

/* Does what the router's flags ask for, unless the interface has a client already. */
static int follow_router(struct ob_net_job *job, uint32_t flags, uint64_t end)
{
	uint64_t now = ob_milliseconds();
	const char *reason;
	int error;

	if (!flags || job->interface->clients[OB_LEASE_IPV6])
		return 0;
	if (!(flags & OB_ROUTER_MANAGED))
		return start_dhcp6(job, SERVERS_SECONDS, OB_DHCP6_SERVERS);
	error = start_dhcp6(job, now < end ? (unsigned int)(end - now + 999) / 1000 : 1,
			    OB_DHCP6_ADDRESS);
	if (error != -ETIMEDOUT || has_announced_address(job) != 1)
		return error;
	/* The interface has an address, though the router promised another one. */
	reason = ob_error_text(OB_ERROR_NET);
	ob_log_line(&job->instance->log, LEVEL_WARNING, reason, strlen(reason));
	ob_error_clear(OB_ERROR_NET);
	return 0;
}

int ob_net_routers_configure(struct ob_net_job *job)
{
	uint64_t end = ob_milliseconds() + job->options.slaac * 1000ull;
	struct ob_netlink *changes;
	uint32_t flags = 0;
	int error;

	if (!job->options.slaac)
		return 0;
	error = accept_announcements(job, "slaac");
	if (error)
		return error;
	changes = malloc(sizeof(*changes));
	if (!changes)
		return fail(-ENOMEM, "%s: slaac: %s", job->interface->name, strerror(ENOMEM));
	error = ob_netlink_open(changes, job->instance, RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_IFINFO);
	error = error ? fail(error, "%s: slaac: %s", job->interface->name, strerror(-error))
		      : wait_for_router(job, changes, end, &flags);
	ob_netlink_close(changes);
	free(changes);
	return error ? error : follow_router(job, flags, end);
}
