// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network interfaces: adds, configures and removes them. A call that fails undoes all its steps.
 *
 * net_options.c reads descriptions, netlink.c talks to Linux. A call makes the device
 * (net_device.c), configures the link step by step (net_link.c), and waits for addresses from the
 * network (net_auto.c). This file owns the list of interfaces; net_interface.h has its rules.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include <outboard/net.h>

#include "instance.h"
#include "net_job.h"
#include "wait.h"

#define fail(error, ...) ob_error_set(OB_ERROR_NET, error, __VA_ARGS__)

/* ---- name servers --------------------------------------------------------------- */

static int set_servers(struct ob_net_job *job)
{
	int error;

	if (!job->options.servers.count)
		return 0;
	job->interface->servers = job->options.servers;
	error = ob_resolver_write(job->instance);
	return error ? fail(error, "%s: dns: cannot write /etc/resolv.conf of the kernel: %s",
			    job->interface->name, strerror(-error)) : 0;
}

static void undo_servers(struct ob_net_job *job)
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
static int configure_and_wait(struct ob_net_job *job)
{
	int error = ob_net_link_configure(job);

	if (!error)
		error = ob_net_lease_configure(job);
	return error ? error : ob_net_routers_configure(job);
}

/* Under the mutex, which it gives up meanwhile: the interface is busy. */
static int configure(struct ob_net_job *job)
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
		error = ob_net_link_lower(job);
	for (int kind = 0; error && kind < OB_LEASE_KINDS; kind++)
		if (job->started[kind])
			ob_lease_stop(interface, kind);
	if (error)
		ob_net_link_undo(job);
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

static struct ob_net_job *new_job(struct ob_instance *instance)
{
	struct ob_net_job *job = calloc(1, sizeof(*job));

	if (!job) {
		fail(-ENOMEM, "%s", strerror(ENOMEM));
		return NULL;
	}
	job->instance = instance;
	job->netlink.fd = -1;
	return job;
}

static void free_job(struct ob_net_job *job)
{
	ob_netlink_close(&job->netlink);
	free(job);
}

static int open_netlink(struct ob_net_job *job)
{
	int error = ob_netlink_open(&job->netlink, job->instance, 0);

	if (error == -ENODEV)
		return fail(error, "no kernel runs");
	if (error == -ENOSYS || error == -EAFNOSUPPORT)
		return fail(-ENOSYS, "this kernel was built without networks");
	return error ? fail(error, "no socket for netlink: %s", strerror(-error)) : 0;
}

static int check_name_is_free(struct ob_net_job *job)
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

static int remove_added(struct ob_instance *instance, const struct ob_net_interface *interface)
{
	return interface->is_host ? ob_net_host_remove(instance)
				  : ob_net_device_remove(instance, interface->device);
}

/* Under the mutex. */
static int configure_host(struct ob_net_job *job)
{
	int error = set_servers(job);

	if (!error)
		set_idle(job->instance, job->interface);
	return error;
}

/* Under the mutex, which it gives up meanwhile: the interface is busy. */
static int add_configured(struct ob_net_job *job)
{
	pthread_mutex_t *mutex = &job->instance->net.mutex;
	int error;

	pthread_mutex_unlock(mutex);
	error = job->options.is_host ? ob_net_host_add(job) : ob_net_device_add(job);
	pthread_mutex_lock(mutex);
	if (error)
		return error;
	error = job->options.is_host ? configure_host(job) : configure(job);
	if (!error)
		return 0;
	/* The interface stays busy, so a halt waits for the removal. */
	job->interface->busy = true;
	pthread_mutex_unlock(mutex);
	remove_added(job->instance, job->interface);
	pthread_mutex_lock(mutex);
	return error;
}

/* Once the mutex is free, another thread may free the interface. */
static void keep_result(struct ob_net_job *job)
{
	job->added = job->interface->device;
	strcpy(job->added_name, job->interface->name);
}

static int add(struct ob_net_job *job)
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
	interface->is_added = true;
	interface->is_host = job->options.is_host;
	job->interface = interface;
	pthread_mutex_lock(&instance->net.mutex);
	error = ob_net_host_check(job);
	if (error) {
		pthread_mutex_unlock(&instance->net.mutex);
		free(interface);
		return error;
	}
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
	struct ob_net_job *job;
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
static int check_gateways(struct ob_net_job *job)
{
	struct ob_net_address addresses[OB_NET_ADDRESSES_MOST * 2];
	int count = job->options.address_count, had;

	memcpy(addresses, job->options.addresses, sizeof(addresses[0]) * (size_t)count);
	had = ob_netlink_addresses(&job->netlink, job->before.index, false, addresses + count,
				   OB_NET_ADDRESSES_MOST * 2 - count);
	if (had < 0)
		return ob_net_fail_step(job, had, "%s", "cannot read its addresses");
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
static int take_interface(struct ob_net_job *job)
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
	for (int kind = 0; kind < OB_LEASE_KINDS; kind++)
		if (interface->clients[kind] || interface->leased[kind].count)
			return false;
	return interface->device < 0 && !interface->servers.count;
}

static int configure_existing(struct ob_net_job *job)
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

/* Reads the link of that name, and its network namespace. */
static int read_link(struct ob_net_job *job, const char *name, uint64_t *space)
{
	int error = ob_netlink_link_get(&job->netlink, name, &job->before);

	if (!error)
		error = ob_netlink_namespace(&job->netlink, space);
	return error ? fail(error, "%s: %s", name, ob_netlink_reason(&job->netlink, error)) : 0;
}

static int configure_named(struct ob_net_job *job, const char *name)
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
	struct ob_net_job *job;
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
	bool is_stuck;
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
	/* If a thread of DHCP is stuck, the structure stays, but the device goes. */
	is_stuck = !ob_lease_stop_all(interface);
	error = remove_added(instance, interface);
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
	if (!is_stuck)
		free(interface);
	return 0;
}

/* The first interface that no call changes. Under the mutex. */
static struct ob_net_interface *find_idle(const struct ob_instance *instance)
{
	struct ob_net_interface *each = instance->net.interfaces;

	while (each && each->busy)
		each = each->next;
	return each;
}

bool ob_net_halted(struct ob_instance *instance, bool is_stuck)
{
	struct ob_patience patience = ob_patience_begin();
	struct ob_net_interface *interface;
	bool all = true;

	pthread_mutex_lock(&instance->net.mutex);
	/* Their calls of the kernel fail now, unless the halt has left a thread in there. */
	while (!is_stuck && is_any_busy(instance) &&
	       ob_condition_wait_patiently(&instance->net.idle, &instance->net.mutex, &patience))
		;
	while ((interface = find_idle(instance))) {
		unlink_interface(instance, interface);
		/* The thread of a DHCP client may wait for the mutex. */
		pthread_mutex_unlock(&instance->net.mutex);
		if (ob_lease_stop_all(interface))
			free(interface);
		else
			all = false;
		pthread_mutex_lock(&instance->net.mutex);
	}
	all &= !instance->net.interfaces;
	pthread_mutex_unlock(&instance->net.mutex);
	return all;
}
