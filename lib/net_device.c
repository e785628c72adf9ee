// SPDX-License-Identifier: GPL-2.0-only
/* Network interfaces: makes the device that a description asks for, and finds its link. */
#include <errno.h>
#include <string.h>

#include "instance.h"
#include "net_job.h"

#define fail(error, ...) ob_error_set(OB_ERROR_NET, error, __VA_ARGS__)

/* The description in short, for reasons. */
#define KIND(job) (job)->options.device.kind, *(job)->options.device.target ? ":" : "",	\
		  (job)->options.device.target

static int open_device(struct ob_net_job *job)
{
	char reason[OB_ERROR_BYTES] = "";
	int device = ob_platform_net_open(job->instance->host, &job->options.device, reason,
					  sizeof(reason));

	if (device >= 0)
		return device;
	/* The platform's reason names the interface. */
	return *reason ? fail(device, "%s", reason)
		       : fail(device, "%s%s%.128s: %s", KIND(job), strerror(-device));
}

/* Makes the device, and the interface of the kernel for it. Returns the device's number. */
static int make_device(struct ob_net_job *job, char name[32])
{
	int device = open_device(job), error;

	if (device < 0)
		return device;
	error = ob_upcall(job->instance, virtio_add)((uint32_t)device, name);
	if (!error)
		return device;
	/* The kernel may not have taken it. */
	ob_platform_net_done(job->instance->host, (uint32_t)device);
	return fail(error, "%s%s%.128s: the kernel does not take the device: %s", KIND(job),
		    strerror(-error));
}

int ob_net_device_remove(struct ob_instance *instance, int device)
{
	return ob_upcall(instance, virtio_remove)((uint32_t)device);
}

static bool is_of_device(const struct ob_net_job *job)
{
	const struct ob_link *link = &job->before;

	return link->has_mac && !memcmp(link->mac, job->options.device.mac, sizeof(link->mac));
}

/*
 * The kernel makes the interface in its first network namespace. Another namespace may have a link
 * of the same name, which has another MAC address.
 */
static int find_link(struct ob_net_job *job, const char *name, uint64_t *space)
{
	int found = ob_netlink_link_get(&job->netlink, name, &job->before);
	int error = ob_netlink_namespace(&job->netlink, space);

	if (error)
		return fail(error, "%s: %s", name, strerror(-error));
	if (!found && is_of_device(job))
		return 0;
	if (found && found != -ENODEV)
		return fail(found, "%s: %s", name, ob_netlink_reason(&job->netlink, found));
	return fail(-EXDEV, "%s%s%.128s: the calling thread is in another network namespace than "
		    "the new interface %s; add it from a thread in the kernel's first namespace",
		    KIND(job), name);
}

int ob_net_device_add(struct ob_net_job *job)
{
	struct ob_net_interface *interface = job->interface;
	char name[32] = "";
	uint64_t space = 0;
	int device = make_device(job, name), error;

	if (device < 0)
		return device;
	error = find_link(job, name, &space);
	if (error) {
		ob_net_device_remove(job->instance, device);
		return error;
	}
	pthread_mutex_lock(&job->instance->net.mutex);
	interface->device = device;
	interface->index = job->before.index;
	interface->space = space;
	strcpy(interface->name, job->before.name);
	pthread_mutex_unlock(&job->instance->net.mutex);
	return 0;
}
