// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network interfaces: makes the device that a description asks for, configures it step by step, and
 * undoes all steps when one fails.
 *
 * net_options.c reads descriptions, netlink.c talks to Linux, dhcp.c asks for a lease. This file
 * owns the list of interfaces; net_interface.h has its rules.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <linux/rtnetlink.h>

#include <outboard/net.h>

#include "clock.h"
#include "dhcp.h"
#include "error.h"
#include "instance.h"
#include "net_interface.h"
#include "netlink.h"
#include "wait.h"

#define fail(error, ...) ob_error_set(OB_ERROR_NET, error, __VA_ARGS__)

/* A step that can be undone, with what was there before. */
struct change {
	enum { CHANGED_FLAGS, CHANGED_NAME, CHANGED_MAC, CHANGED_MTU, CHANGED_ADDRESS,
	       CHANGED_ROUTE } kind;
	union {
		struct ob_net_address address;
		struct ob_route route;
	};
};

/* Flags, name, MAC, MTU; addresses; routes. */
#define CHANGES_MOST (4 + OB_NET_ADDRESSES_MOST + 2)

/* One call that adds or configures an interface. */
struct job {
	struct ob_instance *instance;
	struct ob_net_interface *interface;
	bool started_dhcp;
	int added;			/* number of the new device */
	char added_name[OB_NET_NAME_BYTES];
	struct ob_net_servers servers_before;
	struct ob_link before;		/* the link before the first step */
	int change_count;
	struct change changes[CHANGES_MOST];
	struct ob_net_options options;
	struct ob_netlink netlink;
};

/* ---- steps ------------------------------------------------------------------ */

static struct change *changed(struct job *job, int kind)
{
	struct change *change = &job->changes[job->change_count++];

	change->kind = kind;
	return change;
}

static void undo_change(struct job *job, const struct change *change)
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

static void undo(struct job *job)
{
	while (job->change_count)
		undo_change(job, &job->changes[--job->change_count]);
}

/* A step of Linux that failed. Names the interface. */
#define fail_step(job, error, format, ...)					\
	fail(error, "%s: " format ": %s", (job)->before.name, __VA_ARGS__,	\
	     ob_netlink_reason(&(job)->netlink, error))

/* This step is never undone: by then, others may use loopback. */
static int raise_loopback(struct job *job)
{
	struct ob_link loopback;
	int error = ob_netlink_link_get(&job->netlink, "lo", &loopback);

	/* A program may have renamed it. */
	if (error == -ENODEV || (!error && loopback.flags & IFF_UP))
		return 0;
	if (!error)
		error = ob_netlink_link_set_up(&job->netlink, loopback.index, true);
	return error ? fail_step(job, error, "cannot bring %s up", "lo") : 0;
}

static int set_name(struct job *job)
{
	const char *name = job->options.name;
	int error;

	if (!*name || !strcmp(name, job->before.name))
		return 0;
	error = ob_netlink_link_set_name(&job->netlink, job->before.index, name);
	if (error)
		return fail_step(job, error, "name=%s", name);
	changed(job, CHANGED_NAME);
	return 0;
}

static int set_mac(struct job *job)
{
	const struct ob_platform_net *device = &job->options.device;
	int error;

	if (!device->has_mac ||
	    (job->before.has_mac && !memcmp(device->mac, job->before.mac, sizeof(device->mac))))
		return 0;
	error = ob_netlink_link_set_mac(&job->netlink, job->before.index, device->mac);
	if (error)
		return fail_step(job, error, "%s", "the MAC address cannot be changed");
	changed(job, CHANGED_MAC);
	return 0;
}

static int set_mtu(struct job *job)
{
	uint32_t mtu = job->options.device.mtu;
	int error;

	if (!mtu || mtu == job->before.mtu)
		return 0;
	error = ob_netlink_link_set_mtu(&job->netlink, job->before.index, mtu);
	if (error)
		return fail_step(job, error, "mtu=%u", mtu);
	changed(job, CHANGED_MTU);
	return 0;
}

/* Addresses, routes and leases are of use only on an interface that is up. */
static bool wants_up(const struct ob_net_options *options)
{
	if (options->wanted != OB_NET_AS_IT_IS)
		return options->wanted == OB_NET_UP;
	return options->address_count || options->gateways[0].family ||
	       options->gateways[1].family || options->dhcp || options->slaac;
}

static int raise_link(struct job *job)
{
	int error;

	if (!wants_up(&job->options))
		return 0;
	error = strcmp(job->before.name, "lo") ? raise_loopback(job) : 0;
	if (error || job->before.flags & IFF_UP)
		return error;
	error = ob_netlink_link_set_up(&job->netlink, job->before.index, true);
	if (error)
		return fail_step(job, error, "cannot bring it %s", "up");
	changed(job, CHANGED_FLAGS);
	return 0;
}

/* Linux drops IPv6 addresses and routes then, so it is the last step: it cannot be undone. */
static int lower_link(struct job *job)
{
	int error;

	if (job->options.wanted != OB_NET_DOWN)
		return 0;
	ob_dhcp_stop(job->interface);
	error = ob_netlink_link_set_up(&job->netlink, job->before.index, false);
	return error ? fail_step(job, error, "cannot bring it %s", "down") : 0;
}

static int add_addresses(struct job *job)
{
	char text[OB_NET_ADDRESS_TEXT];

	for (int i = 0; i < job->options.address_count; i++) {
		const struct ob_net_address *address = &job->options.addresses[i];
		int error = ob_netlink_address_add(&job->netlink, job->before.index, address,
						   OB_NETLINK_FOR_EVER, false);

		if (error)
			return fail_step(job, error, "ip=%s",
					 ob_net_address_text(address, true, text));
		changed(job, CHANGED_ADDRESS)->address = *address;
	}
	return 0;
}

static int add_routes(struct job *job)
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
			return fail_step(job, error, "gw=%s",
					 ob_net_address_text(gateway, false, text));
		changed(job, CHANGED_ROUTE)->route = route;
	}
	return 0;
}

static int configure_link(struct job *job)
{
	static int (*const steps[])(struct job *) = {
		set_name, set_mac, set_mtu, raise_link, add_addresses, add_routes,
	};
	int error = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !error; i++)
		error = steps[i](job);
	if (!error && *job->options.name)
		strcpy(job->interface->name, job->options.name);
	return error;
}

/* ---- a lease ----------------------------------------------------------------- */

/* Without the mutex: the interface is busy. */
static int configure_by_dhcp(struct job *job)
{
	struct ob_link link;
	int error;

	if (!job->options.dhcp)
		return 0;
	/* The name, the MAC address and the MTU may be new. */
	error = ob_netlink_link_get(&job->netlink, job->interface->name, &link);
	if (error)
		return fail_step(job, error, "%s", "dhcp");
	error = ob_dhcp_start(job->instance, job->interface, &link, job->options.dhcp,
			      job->options.device.mtu);
	job->started_dhcp = !error;
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
static int accept_announcements(struct job *job)
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

static int wait_for_address(struct job *job, struct ob_netlink *changes)
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
	return count < 0 ? fail_step(job, count, "%s", "slaac") : 0;
}

/* Without the mutex: the interface is busy. */
static int configure_by_routers(struct job *job)
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

/* ---- name servers --------------------------------------------------------------- */

static int set_servers(struct job *job)
{
	int error;

	if (!job->options.servers.count)
		return 0;
	job->interface->servers = job->options.servers;
	error = ob_resolver_write(job->instance);
	return error ? fail(error, "%s: dns: cannot write /etc/resolv.conf of the kernel: %s",
			    job->interface->name, strerror(-error)) : 0;
}

static void undo_servers(struct job *job)
{
	job->interface->servers = job->servers_before;
	if (job->options.servers.count)
		ob_resolver_write(job->instance);
}

/* ---- the list --------------------------------------------------------------------- */

static struct ob_net_interface *find_index(struct ob_instance *instance, uint64_t space,
					   uint32_t index)
{
	struct ob_net_interface *each = instance->net.interfaces;

	while (each && (each->index != index || each->space != space))
		each = each->next;
	return each;
}

static struct ob_net_interface *find_device(struct ob_instance *instance, int device)
{
	struct ob_net_interface *each = instance->net.interfaces;

	while (each && each->device != device)
		each = each->next;
	return each;
}

static void unlink_interface(struct ob_instance *instance, struct ob_net_interface *interface)
{
	struct ob_net_interface **place = &instance->net.interfaces;

	while (*place != interface)
		place = &(*place)->next;
	*place = interface->next;
}

static void link_interface(struct ob_instance *instance, struct ob_net_interface *interface)
{
	interface->next = instance->net.interfaces;
	instance->net.interfaces = interface;
}

/* A thread that waits for this gets the mutex after the caller. */
static void set_idle(struct ob_instance *instance, struct ob_net_interface *interface)
{
	interface->busy = false;
	pthread_cond_broadcast(&instance->net.idle);
}

static bool is_any_busy(const struct ob_instance *instance)
{
	const struct ob_net_interface *each = instance->net.interfaces;

	while (each && !each->busy)
		each = each->next;
	return each;
}

/* ---- calls ------------------------------------------------------------------------- */

/* The steps that may wait, without the mutex. */
static int configure_and_wait(struct job *job)
{
	int error = configure_link(job);

	if (!error)
		error = configure_by_dhcp(job);
	return error ? error : configure_by_routers(job);
}

/* Under the mutex, which it gives up meanwhile: the interface is busy. */
static int configure(struct job *job)
{
	struct ob_net_interface *interface = job->interface;
	pthread_mutex_t *mutex = &job->instance->net.mutex;
	int error;

	job->servers_before = interface->servers;
	interface->busy = true;
	pthread_mutex_unlock(mutex);
	error = configure_and_wait(job);
	pthread_mutex_lock(mutex);
	if (!error)
		error = set_servers(job);
	pthread_mutex_unlock(mutex);
	if (!error)
		error = lower_link(job);
	if (error && job->started_dhcp)
		ob_dhcp_stop(interface);
	if (error)
		undo(job);
	pthread_mutex_lock(mutex);
	if (error) {
		strcpy(interface->name, job->before.name);
		undo_servers(job);
	}
	set_idle(job->instance, interface);
	return error;
}

/*
 * A thread that a contained panic has stopped may have the mutex, or an interface that is busy for
 * ever.
 */
static int check_instance(struct ob_instance *instance)
{
	if (!instance)
		return fail(-EINVAL, "no instance");
	if (__atomic_load_n(&instance->state, __ATOMIC_ACQUIRE) == OB_INSTANCE_PANICKED)
		return fail(-ENODEV, "this kernel has panicked");
	return 0;
}

static struct job *new_job(struct ob_instance *instance)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job) {
		fail(-ENOMEM, "%s", strerror(ENOMEM));
		return NULL;
	}
	job->instance = instance;
	job->netlink.fd = -1;
	return job;
}

static void free_job(struct job *job)
{
	ob_netlink_close(&job->netlink);
	free(job);
}

static int open_netlink(struct job *job)
{
	int error = ob_netlink_open(&job->netlink, job->instance, 0);

	if (error == -ENODEV)
		return fail(error, "no kernel runs");
	if (error == -ENOSYS || error == -EAFNOSUPPORT)
		return fail(-ENOSYS, "this kernel was built without networks");
	return error ? fail(error, "no socket for netlink: %s", strerror(-error)) : 0;
}

static int check_name_is_free(struct job *job)
{
	struct ob_link link;
	int error;

	if (!*job->options.name)
		return 0;
	error = ob_netlink_link_get(&job->netlink, job->options.name, &link);
	if (error == -ENODEV)
		return 0;
	if (error)
		return fail(error, "name=%s: %s", job->options.name,
			    ob_netlink_reason(&job->netlink, error));
	return fail(-EEXIST, "name=%s: an interface has this name already", job->options.name);
}

/* The description in short, for reasons. */
#define KIND(job) (job)->options.device.kind, *(job)->options.device.target ? ":" : "",	\
		  (job)->options.device.target

static int open_device(struct job *job)
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
static int make_device(struct job *job, char name[32])
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

static int remove_device(struct ob_instance *instance, int device)
{
	return ob_upcall(instance, virtio_remove)((uint32_t)device);
}

/* Reads the link of that name, and its network namespace. */
static int read_link(struct job *job, const char *name, uint64_t *space)
{
	int error = ob_netlink_link_get(&job->netlink, name, &job->before);

	if (!error)
		error = ob_netlink_namespace(&job->netlink, space);
	return error ? fail(error, "%s: %s", name, ob_netlink_reason(&job->netlink, error)) : 0;
}

static bool is_of_device(const struct job *job)
{
	const struct ob_link *link = &job->before;

	return link->has_mac && !memcmp(link->mac, job->options.device.mac, sizeof(link->mac));
}

/*
 * The kernel makes the interface in its first network namespace. Another namespace may have a link
 * of the same name, which has another MAC address.
 */
static int find_link(struct job *job, const char *name, uint64_t *space)
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

/* find_link() needs to know the address. */
static int choose_mac(struct job *job)
{
	struct ob_platform_net *device = &job->options.device;
	int error;

	if (device->has_mac)
		return 0;
	error = ob_host_random(job->instance->host, device->mac, sizeof(device->mac));
	if (error)
		return fail(error, "%s%s%.128s: no random MAC address: %s", KIND(job),
			    strerror(-error));
	/* Of one host, and locally administered. */
	device->mac[0] = (uint8_t)((device->mac[0] & ~1u) | 2u);
	device->has_mac = true;
	return 0;
}

/* Makes the busy interface of the list. Without the mutex: this waits for the host. */
static int make_interface(struct job *job)
{
	struct ob_net_interface *interface = job->interface;
	char name[32] = "";
	uint64_t space = 0;
	int error = choose_mac(job), device;

	if (error)
		return error;
	device = make_device(job, name);
	if (device < 0)
		return device;
	error = find_link(job, name, &space);
	if (error) {
		remove_device(job->instance, device);
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

/* Under the mutex, which it gives up meanwhile: the interface is busy. */
static int add_configured(struct job *job)
{
	pthread_mutex_t *mutex = &job->instance->net.mutex;
	int error, device;

	pthread_mutex_unlock(mutex);
	error = make_interface(job);
	pthread_mutex_lock(mutex);
	if (error)
		return error;
	error = configure(job);
	if (!error)
		return 0;
	/* The interface stays busy, so a halt waits for the removal. */
	job->interface->busy = true;
	device = job->interface->device;
	pthread_mutex_unlock(mutex);
	remove_device(job->instance, device);
	pthread_mutex_lock(mutex);
	return error;
}

/* Once the mutex is free, another thread may free the interface. */
static void keep_result(struct job *job)
{
	job->added = job->interface->device;
	strcpy(job->added_name, job->interface->name);
}

static int add(struct job *job)
{
	struct ob_net_interface *interface = calloc(1, sizeof(*interface));
	struct ob_instance *instance = job->instance;
	int error;

	if (!interface)
		return fail(-ENOMEM, "%s", strerror(ENOMEM));
	if (job->options.wanted == OB_NET_AS_IT_IS)
		job->options.wanted = OB_NET_UP;
	interface->device = -1;
	interface->busy = true;
	job->interface = interface;
	pthread_mutex_lock(&instance->net.mutex);
	link_interface(instance, interface);
	error = add_configured(job);
	if (error) {
		unlink_interface(instance, interface);
		set_idle(instance, interface);
	} else {
		keep_result(job);
	}
	pthread_mutex_unlock(&instance->net.mutex);
	if (error)
		free(interface);
	return error;
}

int ob_net_add_on(struct ob_instance *instance, const char *description, char name[16])
{
	struct job *job;
	int result;

	ob_error_clear(OB_ERROR_NET);
	result = check_instance(instance);
	if (result)
		return result;
	if (!description)
		return fail(-EINVAL, "no description of an interface");
	job = new_job(instance);
	if (!job)
		return -ENOMEM;
	result = ob_net_options_read_spec(description, &job->options);
	if (!result)
		result = open_netlink(job);
	if (!result)
		result = check_name_is_free(job);
	if (!result)
		result = add(job);
	if (!result) {
		result = job->added;
		if (name)
			strcpy(name, job->added_name);
	}
	free_job(job);
	return result;
}

/* With gateways in the changes, addresses that the interface has already count, too. */
static int check_gateways(struct job *job)
{
	struct ob_net_address addresses[OB_NET_ADDRESSES_MOST * 2];
	int count = job->options.address_count, had;

	memcpy(addresses, job->options.addresses, sizeof(addresses[0]) * (size_t)count);
	had = ob_netlink_addresses(&job->netlink, job->before.index, false, addresses + count,
				   OB_NET_ADDRESSES_MOST * 2 - count);
	if (had < 0)
		return fail_step(job, had, "%s", "cannot read its addresses");
	for (int i = 0; i < 2; i++) {
		const struct ob_net_address *gateway = &job->options.gateways[i];
		int error = !gateway->family ? 0 :
			ob_net_options_check_gateway(gateway, addresses, count + had);

		if (error)
			return error;
	}
	return 0;
}

/* Takes the interface of the list, or puts a new one there. Under the mutex. */
static int take_interface(struct job *job)
{
	struct ob_net_interface *new = job->interface, *old;

	old = find_index(job->instance, new->space, new->index);
	if (old && old->busy)
		return fail(-EBUSY, "%s: another call changes this interface now",
			    job->before.name);
	if (old) {
		free(new);
		job->interface = old;
	} else {
		link_interface(job->instance, new);
	}
	strcpy(job->interface->name, job->before.name);
	return 0;
}

/* An entry of the program's own interface that says nothing: it would only fill the list. */
static bool is_empty(const struct ob_net_interface *interface)
{
	return interface->device < 0 && !interface->dhcp && !interface->servers.count &&
	       !interface->leased.count;
}

static int configure_existing(struct job *job)
{
	int error;

	pthread_mutex_lock(&job->instance->net.mutex);
	error = take_interface(job);
	if (error) {
		pthread_mutex_unlock(&job->instance->net.mutex);
		free(job->interface);
		return error;
	}
	error = configure(job);
	if (is_empty(job->interface)) {
		unlink_interface(job->instance, job->interface);
		free(job->interface);
	}
	pthread_mutex_unlock(&job->instance->net.mutex);
	return error;
}

static int configure_named(struct job *job, const char *name)
{
	int error = !*name || strlen(name) >= OB_NET_NAME_BYTES ? -ENODEV :
		    ob_netlink_link_get(&job->netlink, name, &job->before);

	if (error == -ENODEV)
		return fail(-ENOENT, "%.32s: no interface has this name", name);
	job->interface = calloc(1, sizeof(*job->interface));
	if (!job->interface)
		return fail(-ENOMEM, "%s", strerror(ENOMEM));
	job->interface->device = -1;
	error = read_link(job, name, &job->interface->space);
	job->interface->index = job->before.index;
	if (!error)
		error = check_gateways(job);
	if (error) {
		free(job->interface);
		return error;
	}
	return configure_existing(job);
}

int ob_net_configure_on(struct ob_instance *instance, const char *name, const char *changes)
{
	struct job *job;
	int error;

	ob_error_clear(OB_ERROR_NET);
	error = check_instance(instance);
	if (error)
		return error;
	if (!name || !changes)
		return fail(-EINVAL, name ? "no changes of an interface"
					  : "no name of an interface");
	job = new_job(instance);
	if (!job)
		return -ENOMEM;
	error = ob_net_options_read_changes(changes, &job->options);
	if (!error)
		error = open_netlink(job);
	if (!error)
		error = configure_named(job, name);
	free_job(job);
	return error;
}

/* Takes the interface for its removal. Under the mutex. */
static int take_device(struct ob_instance *instance, int number,
		       struct ob_net_interface **interface)
{
	*interface = number < 0 ? NULL : find_device(instance, number);
	if (!*interface)
		return fail(-ENOENT, "no interface has the number %d", number);
	if ((*interface)->busy)
		return fail(-EBUSY, "%s: another call changes this interface now",
			    (*interface)->name);
	(*interface)->busy = true;
	return 0;
}

/* True: the kernel has the device no more, or has halted. */
static bool is_removed(int error)
{
	return !error || error == -ENODEV || error == -ENOENT;
}

int ob_net_remove_on(struct ob_instance *instance, int number)
{
	struct ob_net_interface *interface;
	int error;

	ob_error_clear(OB_ERROR_NET);
	error = check_instance(instance);
	if (error)
		return error;
	if (ob_syscall_on(instance, SYS_getpid) == -ENODEV)
		return fail(-ENODEV, "no kernel runs");
	pthread_mutex_lock(&instance->net.mutex);
	error = take_device(instance, number, &interface);
	pthread_mutex_unlock(&instance->net.mutex);
	if (error)
		return error;
	ob_dhcp_stop(interface);
	error = remove_device(instance, interface->device);
	pthread_mutex_lock(&instance->net.mutex);
	if (!is_removed(error)) {
		fail(error, "%s: the kernel does not remove the device: %s", interface->name,
		     strerror(-error));
		set_idle(instance, interface);
		pthread_mutex_unlock(&instance->net.mutex);
		return error;
	}
	unlink_interface(instance, interface);
	if (interface->servers.count)
		ob_resolver_write(instance);
	set_idle(instance, interface);
	pthread_mutex_unlock(&instance->net.mutex);
	free(interface);
	return 0;
}

const char *ob_net_error(void)
{
	return ob_error_text(OB_ERROR_NET);
}

void ob_net_halted(struct ob_instance *instance)
{
	struct ob_net_interface *interface;

	pthread_mutex_lock(&instance->net.mutex);
	/* Their calls of the kernel fail now. */
	while (is_any_busy(instance))
		ob_condition_wait(&instance->net.idle, &instance->net.mutex);
	while ((interface = instance->net.interfaces)) {
		instance->net.interfaces = interface->next;
		/* The thread of a DHCP client may wait for the mutex. */
		pthread_mutex_unlock(&instance->net.mutex);
		ob_dhcp_stop(interface);
		free(interface);
		pthread_mutex_lock(&instance->net.mutex);
	}
	pthread_mutex_unlock(&instance->net.mutex);
}
