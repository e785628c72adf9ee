// SPDX-License-Identifier: GPL-2.0-only
/* Network interfaces: addresses from the network, by DHCP or by announcements of routers. */
#include <errno.h>
#include <fcntl.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "clock.h"
#include "dhcp.h"
#include "instance.h"
#include "net_job.h"

#define fail(error, ...) ob_error_set(OB_ERROR_NET, error, __VA_ARGS__)

/* ---- a lease ----------------------------------------------------------------- */

int ob_net_lease_configure(struct ob_net_job *job)
{
	struct ob_link link;
	int error;

	if (!job->options.dhcp)
		return 0;
	/* The name, the MAC address and the MTU may be new. */
	error = ob_netlink_link_get(&job->netlink, job->interface->name, &link);
	if (error)
		return ob_net_fail_step(job, error, "%s", "dhcp");
	error = ob_dhcp_start(job->instance, job->interface, &link, job->options.dhcp,
			      job->options.device.mtu);
	job->started[OB_LEASE_IPV4] = !error;
	return error;
}

/* ---- addresses from routers --------------------------------------------------- */

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
static int accept_announcements(struct ob_net_job *job)
{
	char path[64];
	long file, error;

	snprintf(path, sizeof(path), "sys/net/ipv6/conf/%s/accept_ra", job->interface->name);
	file = open_setting(job->instance, path);
	if (file < 0)
		return fail((int)file, "%s: slaac: cannot write the setting accept_ra: %s",
			    job->interface->name, strerror(-(int)file));
	error = ob_syscall_on(job->instance, SYS_write, file, "2", 1L);
	ob_syscall_on(job->instance, SYS_close, file);
	return error < 0 ? fail((int)error, "%s: slaac: cannot write the setting accept_ra: %s",
				job->interface->name, strerror(-(int)error)) : 0;
}

static int wait_for_address(struct ob_net_job *job, struct ob_netlink *changes)
{
	uint64_t end = ob_milliseconds() + job->options.slaac * 1000ull;
	struct ob_net_address unused;
	int count;

	while (!(count = ob_netlink_addresses(&job->netlink, job->before.index, true, &unused,
					      1))) {
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
	return count < 0 ? ob_net_fail_step(job, count, "%s", "slaac") : 0;
}

int ob_net_routers_configure(struct ob_net_job *job)
{
	struct ob_netlink *changes;
	int error;

	if (!job->options.slaac)
		return 0;
	error = accept_announcements(job);
	if (error)
		return error;
	changes = malloc(sizeof(*changes));
	if (!changes)
		return fail(-ENOMEM, "%s: slaac: %s", job->interface->name, strerror(ENOMEM));
	error = ob_netlink_open(changes, job->instance, RTMGRP_IPV6_IFADDR);
	error = error ? fail(error, "%s: slaac: %s", job->interface->name, strerror(-error))
		      : wait_for_address(job, changes);
	ob_netlink_close(changes);
	free(changes);
	return error;
}
