/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One call that adds or configures an interface. net.c owns it; the other files that are named here
 * do the parts of the call. Each function returns 0 or -errno, and leaves the reason for
 * ob_net_error().
 */
#ifndef OUTBOARD_LIB_NET_JOB_H
#define OUTBOARD_LIB_NET_JOB_H

#include "error.h"
#include "net_interface.h"
#include "netlink.h"

/* A step of Linux that failed. Names the interface. */
#define ob_net_fail_step(job, error, format, ...)				\
	ob_error_set(OB_ERROR_NET, error, "%s: " format ": %s", (job)->before.name,	\
		     __VA_ARGS__, ob_netlink_reason(&(job)->netlink, error))

/* A step that can be undone, with what was there before. */
struct ob_net_change {
	enum { CHANGED_FLAGS, CHANGED_NAME, CHANGED_MAC, CHANGED_MTU, CHANGED_ADDRESS,
	       CHANGED_ROUTE } kind;
	union {
		struct ob_net_address address;
		struct ob_route route;
	};
};

/* Flags, name, MAC, MTU; addresses; routes. */
#define OB_NET_CHANGES_MOST (4 + OB_NET_ADDRESSES_MOST + 2)

struct ob_net_job {
	struct ob_instance *instance;
	struct ob_net_interface *interface;
	bool started[OB_LEASE_KINDS];	/* DHCP clients */
	int added;			/* number of the new device */
	char added_name[OB_NET_NAME_BYTES];
	struct ob_net_servers servers_before;
	struct ob_link before;		/* the link before the first step */
	int change_count;
	struct ob_net_change changes[OB_NET_CHANGES_MOST];
	struct ob_net_options options;
	struct ob_netlink netlink;
};

/* net_device.c */

/*
 * Makes the device of a description, and finds the kernel's link of it: sets `before`, and the
 * busy interface's device, index, namespace and name. Waits for the host, without the mutex.
 */
int ob_net_device_add(struct ob_net_job *job);
int ob_net_device_remove(struct ob_instance *instance, int device);

/* net_host.c */

/*
 * Sockets are either those of interfaces or the host's: -EBUSY if the job does not fit to what
 * there is. Under the mutex.
 */
int ob_net_host_check(const struct ob_net_job *job);
/* New sockets are the host's from now on. Waits for the host, without the mutex. */
int ob_net_host_add(struct ob_net_job *job);
int ob_net_host_remove(struct ob_instance *instance);

/* net_link.c: without the mutex, the interface is busy. */

/* Does all steps but one, up to the first that fails. */
int ob_net_link_configure(struct ob_net_job *job);
/* The last step, if the job wants it: brings the link down. It cannot be undone. */
int ob_net_link_lower(struct ob_net_job *job);
/* Undoes the steps of ob_net_link_configure(). */
void ob_net_link_undo(struct ob_net_job *job);

/* net_auto.c: without the mutex, the interface is busy. A job without the word needs nothing. */

/* Asks for leases by DHCP, for IPv4 and IPv6. */
int ob_net_lease_configure(struct ob_net_job *job);
/* Waits for an address that a router announces, or for what its flags ask for instead. */
int ob_net_routers_configure(struct ob_net_job *job);

#endif
