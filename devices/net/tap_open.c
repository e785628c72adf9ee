// SPDX-License-Identifier: GPL-2.0-only
/*
 * Network: finds, opens and tests a tap interface.
 *
 * "NAME": the interface exists and the process may use it, or the process may create interfaces.
 * "fd=N" or "fd=N:N...": open descriptors of one interface, one for each queue, from a program with
 * more rights. A macvtap is used like this, too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <linux/virtio_net.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "raw.h"
#include "tap.h"

#define DEVICE "/dev/net/tun"
#define DESCRIPTORS "fd="
#define NEEDED_FLAGS (IFF_TAP | IFF_NO_PI | IFF_VNET_HDR)

/* Headers of older hosts lack these. backend.h has those of virtio. */
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

#define FEATURE(name) (1ULL << VIRTIO_NET_F_##name)

#define TSO (TUN_F_TSO4 | TUN_F_TSO6)
#define USO (TUN_F_USO4 | TUN_F_USO6)

/* Offloads of frames from the host to the kernel. The other direction needs no call. */
static const struct {
	uint64_t feature;
	unsigned int offload;
} offloads[] = {
	{ FEATURE(GUEST_CSUM), TUN_F_CSUM },
	{ FEATURE(GUEST_TSO4), TUN_F_TSO4 },
	{ FEATURE(GUEST_TSO6), TUN_F_TSO6 },
	{ FEATURE(GUEST_ECN), TUN_F_TSO_ECN },
	{ FEATURE(GUEST_USO4), TUN_F_USO4 },
	{ FEATURE(GUEST_USO6), TUN_F_USO6 },
};

#define OFFLOADS (sizeof(offloads) / sizeof(offloads[0]))
#define TO_HOST (FEATURE(CSUM) | FEATURE(HOST_TSO4) | FEATURE(HOST_TSO6) | FEATURE(HOST_ECN))

/* One call of ob_tap_open_interface(). */
struct opening {
	struct ob_tap *tap;
	const struct ob_net_request *request;
	char *error;
	size_t error_size;
};

/* Writes the line of the error, and returns `result`. */
static __attribute__((format(printf, 3, 4)))
int fail(const struct opening *opening, int result, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(opening->error, opening->error_size, format, arguments);
	va_end(arguments);
	return result;
}

/* ---- offloads ------------------------------------------------------------ */

/* The host refuses one kind of USO without the other, and segmentation without checksums. */
static unsigned int host_offloads(uint64_t features)
{
	unsigned int bits = 0;

	for (size_t i = 0; i < OFFLOADS; i++)
		if (features & offloads[i].feature)
			bits |= offloads[i].offload;
	if (!(bits & TUN_F_CSUM))
		return 0;
	if (!(bits & TSO))
		bits &= ~TUN_F_TSO_ECN;
	return (bits & USO) == USO ? bits : bits & ~USO;
}

int ob_tap_set_offloads(struct ob_tap *tap, uint64_t features)
{
	unsigned long bits = host_offloads(features);

	return ioctl(tap->queues[0].fd, TUNSETOFFLOAD, bits) ? -errno : 0;
}

static bool takes(struct ob_tap *tap, uint64_t features)
{
	return !ob_tap_set_offloads(tap, features);
}

/* Tests what the host takes. It sends plain frames until the kernel's driver has chosen. */
static uint64_t find_offloads(struct ob_tap *tap)
{
	uint64_t checksum = FEATURE(GUEST_CSUM);
	uint64_t tso = checksum | FEATURE(GUEST_TSO4) | FEATURE(GUEST_TSO6) | FEATURE(GUEST_ECN);
	uint64_t uso = tso | FEATURE(GUEST_USO4) | FEATURE(GUEST_USO6);
	uint64_t found = TO_HOST;

	if (takes(tap, uso))
		found |= uso | FEATURE(HOST_USO);
	else if (takes(tap, tso))
		found |= tso;
	else if (takes(tap, checksum))
		found |= checksum;
	ob_tap_set_offloads(tap, 0);
	return found;
}

/* ---- interfaces by name -------------------------------------------------- */

/* Asks about the interface of that name in this process's network namespace. 0 or -errno. */
static int query(const char *name, unsigned long command, struct ifreq *request)
{
	int fd = raw_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int result;

	if (fd < 0)
		return -errno;
	memcpy(request->ifr_name, name, strlen(name) + 1);
	result = ioctl(fd, command, request) ? -errno : 0;
	raw_close(fd);
	return result;
}

static bool exists(const char *name)
{
	struct ifreq request = { 0 };

	return !query(name, SIOCGIFINDEX, &request);
}

static bool is_tap(const char *name)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	struct ifreq request = { .ifr_data = (char *)&info };

	return !query(name, SIOCETHTOOL, &request) && !strcmp(info.driver, "tun") &&
	       !strcmp(info.bus_info, "tap");
}

/* Has a program opened a queue of the interface? The host reports that only if it is up. */
static bool is_in_use(const char *name)
{
	struct ethtool_value value = { .cmd = ETHTOOL_GLINK };
	struct ifreq request = { .ifr_data = (char *)&value };

	return !query(name, SIOCETHTOOL, &request) && value.data;
}

static uint32_t host_mtu(const char *name)
{
	struct ifreq request = { 0 };

	return query(name, SIOCGIFMTU, &request) ? 0 : (uint32_t)request.ifr_mtu;
}

static int fail_name(const struct opening *opening, int result, const char *reason)
{
	return fail(opening, result, "cannot open tap interface %s: %s",
		    opening->request->target, reason);
}

static int check_name(const struct opening *opening)
{
	const char *name = opening->request->target;

	if (!*name)
		return fail(opening, -EINVAL, "cannot open a tap interface: it has no name; "
			    "write tap:NAME");
	if (strlen(name) >= IFNAMSIZ)
		return fail(opening, -ENAMETOOLONG, "cannot open tap interface %s: the name has "
			    "more than %d characters", name, IFNAMSIZ - 1);
	if (strpbrk(name, "/:% \t\n") || !strcmp(name, ".") || !strcmp(name, ".."))
		return fail_name(opening, -EINVAL, "the host allows no such name");
	return 0;
}

static int open_device(const struct opening *opening, struct ob_tap_queue *queue)
{
	int error;

	queue->fd = raw_open(DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (queue->fd >= 0)
		return 0;
	error = errno;
	if (error == ENOENT || error == ENODEV || error == ENXIO)
		return fail_name(opening, -error, "the host has no " DEVICE "; ask root for "
				 "'modprobe tun', or give the container this device");
	if (error == EACCES || error == EPERM)
		return fail_name(opening, -error, "permission to open " DEVICE " is denied; ask "
				 "root for 'chmod 666 " DEVICE "'");
	return fail_name(opening, -error, strerror(error));
}

/* Explains why TUNSETIFF failed. */
static int fail_interface(const struct opening *opening, int error, unsigned int queues)
{
	const char *name = opening->request->target;
	bool present = exists(name);

	if (error == EPERM || error == EACCES)
		return fail(opening, -error, "cannot open tap interface %s: it %s; ask root for "
			    "'%s%s%sip tuntap add dev %s mode tap user %u'", name,
			    present ? "belongs to another user" :
			    "does not exist, and this user may not create it",
			    present ? "ip link del " : "", present ? name : "",
			    present ? " && " : "", name, geteuid());
	if (error == EBUSY)
		return fail_name(opening, -error, "another program uses it; stop that program, or "
				 "use another interface");
	if (error == E2BIG)
		return fail(opening, -error, "cannot open tap interface %s: the host has no %u "
			    "free queues for it; use fewer queues", name, queues);
	if (error == EINVAL && present && !is_tap(name))
		return fail_name(opening, -error, "an interface of that name exists, and it is no "
				 "tap interface; use another name");
	if (error == EINVAL && present)
		return fail(opening, -error, "cannot open tap interface %s: it has one queue, not "
			    "%u; use queues=1, or ask root for 'ip tuntap add dev %s mode tap "
			    "multi_queue user %u'", name, queues, name, geteuid());
	return fail_name(opening, -error, strerror(error));
}

/*
 * The host lets programs share an interface that was created with several queues. Each would get a
 * part of the frames.
 */
static int set_interface(struct ob_tap_queue *queue, const char *name, int flags)
{
	struct ifreq request = { .ifr_flags = (short)(NEEDED_FLAGS | flags) };

	if (flags && queue->number == 0 && is_in_use(name))
		return EBUSY;
	memcpy(request.ifr_name, name, strlen(name) + 1);
	return ioctl(queue->fd, TUNSETIFF, &request) ? errno : 0;
}

/* An interface that was created with several queues cannot be opened as one with one queue. */
static int open_named(const struct opening *opening)
{
	const char *name = opening->request->target;
	unsigned int queues = opening->tap->backend.queues;
	int flags = queues > 1 ? IFF_MULTI_QUEUE : 0;
	int error = check_name(opening);

	if (error)
		return error;
	for (unsigned int i = 0; i < queues; i++) {
		struct ob_tap_queue *queue = &opening->tap->queues[i];

		error = open_device(opening, queue);
		if (error)
			return error;
		error = set_interface(queue, name, flags);
		if (error == EINVAL && !flags)
			error = set_interface(queue, name, IFF_MULTI_QUEUE);
		if (error)
			return fail_interface(opening, error, queues);
	}
	memcpy(opening->tap->name, name, strlen(name) + 1);
	opening->tap->backend.mtu = host_mtu(name);
	return 0;
}

/* ---- open descriptors ---------------------------------------------------- */

static int fail_descriptor(const struct opening *opening, int number, int result,
			   const char *reason)
{
	return fail(opening, result, "cannot use descriptor %d as a tap interface: %s", number,
		    reason);
}

static int check_descriptor(const struct opening *opening, int number, const struct ifreq *request)
{
	if (request->ifr_flags & IFF_DETACH_QUEUE)
		return fail_descriptor(opening, number, -EINVAL, "its queue is detached; call "
				       "TUNSETQUEUE with IFF_ATTACH_QUEUE first");
	if ((request->ifr_flags & NEEDED_FLAGS) == NEEDED_FLAGS)
		return 0;
	return fail_descriptor(opening, number, -EINVAL, "it is open with other flags; open it "
			       "with IFF_TAP, IFF_NO_PI and IFF_VNET_HDR");
}

/* Duplicates the descriptor: the caller keeps its own. */
static int use_descriptor(const struct opening *opening, unsigned int index, int number)
{
	struct ob_tap_queue *queue = &opening->tap->queues[index];
	struct ifreq request = { 0 };

	queue->fd = raw_dup(number);
	if (queue->fd < 0)
		return fail_descriptor(opening, number, -errno, strerror(errno));
	if (ioctl(queue->fd, TUNGETIFF, &request))
		return fail_descriptor(opening, number, -errno, errno == EBADFD ?
				       "it has no interface; call TUNSETIFF first" :
				       "it is no tap interface");
	memcpy(opening->tap->name, request.ifr_name, IFNAMSIZ - 1);
	return check_descriptor(opening, number, &request);
}

static int open_descriptors(const struct opening *opening)
{
	const char *text = opening->request->target + strlen(DESCRIPTORS);
	unsigned int count = 0;
	int error = 0;

	opening->tap->is_given = true;
	while (!error) {
		char *end;
		unsigned long number = strtoul(text, &end, 10);

		if (end == text || *text < '0' || *text > '9' || number > 0xffffff ||
		    (*end && *end != ':') || count == OB_NET_QUEUES_MOST)
			return fail(opening, -EINVAL, "cannot open tap:%s: write up to %d numbers "
				    "of descriptors, as in tap:fd=3:4", opening->request->target,
				    OB_NET_QUEUES_MOST);
		error = use_descriptor(opening, count++, (int)number);
		if (!*end)
			break;
		text = end + 1;
	}
	if (!error && opening->request->queues && opening->request->queues != count)
		return fail(opening, -EINVAL, "cannot open tap:%s: %u descriptors are no %u queues",
			    opening->request->target, count, opening->request->queues);
	opening->tap->backend.queues = count;
	return error;
}

/* ---- both ---------------------------------------------------------------- */

int ob_tap_attach(struct ob_tap_queue *queue, bool attach)
{
	struct ifreq request = {
		.ifr_flags = attach ? IFF_ATTACH_QUEUE : IFF_DETACH_QUEUE,
	};

	return ioctl(queue->fd, TUNSETQUEUE, &request) ? -errno : 0;
}

/* The kernel uses one queue at first. */
static int prepare_queue(const struct opening *opening, struct ob_tap_queue *queue)
{
	int header = OB_NET_HEADER_BYTES;
	int error = 0;

	if (ioctl(queue->fd, TUNSETVNETHDRSZ, &header))
		error = -errno;
	queue->attached = queue->wanted = queue->number == 0;
	if (!error && !queue->attached)
		error = ob_tap_attach(queue, false);
	return error ? fail(opening, error, "cannot open tap interface %s: the host refuses virtio "
			    "headers or queues (%s)", opening->tap->name, strerror(-error)) : 0;
}

static int check_queues(const struct opening *opening)
{
	if (opening->request->queues <= OB_NET_QUEUES_MOST)
		return 0;
	return fail(opening, -EINVAL, "cannot open tap:%s with %u queues: %d is the most",
		    opening->request->target, opening->request->queues, OB_NET_QUEUES_MOST);
}

int ob_tap_open_interface(struct ob_tap *tap, const struct ob_net_request *request, char *error,
			  size_t error_size)
{
	struct opening opening = {
		.tap = tap, .request = request, .error = error, .error_size = error_size,
	};
	int result = check_queues(&opening);

	if (result)
		return result;
	tap->backend.queues = request->queues ? request->queues : 1;
	if (!strncmp(request->target, DESCRIPTORS, strlen(DESCRIPTORS)))
		result = open_descriptors(&opening);
	else
		result = open_named(&opening);
	for (unsigned int i = 0; i < tap->backend.queues && !result; i++)
		result = prepare_queue(&opening, &tap->queues[i]);
	if (result)
		return result;
	if (request->mtu)
		tap->backend.mtu = request->mtu;
	tap->backend.offloads = find_offloads(tap);
	return 0;
}
