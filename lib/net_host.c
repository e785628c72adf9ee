// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's sockets as a kernel's own, in the place of an interface: there is no device, and no
 * link to configure.
 */
#include <errno.h>
#include <string.h>

#include "instance.h"
#include "net_job.h"

#define fail(error, ...) ob_error_set(OB_ERROR_NET, error, __VA_ARGS__)

int ob_net_host_check(const struct ob_net_job *job)
{
	const struct ob_net_interface *each = job->instance->net.interfaces;

	for (; each; each = each->next) {
		if (each->is_added && each->is_host)
			return fail(-EBUSY, "%s: the sockets of this kernel are the host's: remove "
				    "the interface host first", job->options.device.kind);
		if (each->is_added && job->options.is_host)
			return fail(-EBUSY, "host: the sockets of this kernel are those of its "
				    "interface %s: remove that first", each->name);
	}
	return 0;
}

int ob_net_host_add(struct ob_net_job *job)
{
	struct ob_net_interface *interface = job->interface;
	int error = ob_upcall(job->instance, sockets)(1);

	/* A kernel that is older than this library has no such function. */
	if (error == -ENOSYS || error == -ENODEV)
		return fail(-ENOSYS, "host: this kernel cannot use sockets of the host");
	if (error == -EBUSY)
		return fail(error, "host: an MPTCP socket of this kernel is open: close all of "
			    "them first");
	if (error)
		return fail(error, "host: the host refuses: %s", strerror(-error));
	pthread_mutex_lock(&job->instance->net.mutex);
	interface->device = OB_NET_HOST;
	strcpy(interface->name, "host");
	strcpy(job->before.name, interface->name);
	pthread_mutex_unlock(&job->instance->net.mutex);
	return 0;
}

int ob_net_host_remove(struct ob_instance *instance)
{
	return ob_upcall(instance, sockets)(0);
}
