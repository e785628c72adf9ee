// SPDX-License-Identifier: GPL-2.0-only
/*
 * Opening a tap: names, rights, given descriptors, and the reasons of refusals. Arguments: names of
 * tests; none: all.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "check.h"
#include "net_tap_bed.h"
#include "tap.h"
#include "threads.h"

static void refused(const char *target, unsigned int queues, int result, const char *text)
{
	CHECK_EQUAL(tap_try_open(target, queues), result);
	if (!strstr(tap_error, text)) {
		fprintf(stderr, "%s: '%s' does not contain '%s'\n", target, tap_error, text);
		_Exit(1);
	}
	CHECK(!strchr(tap_error, '\n'));
	/* Nothing stays open. */
	CHECK_EQUAL(threads_named("outboard-tap", NULL), 0);
}

static int host_tap(const char *name, int flags)
{
	struct ifreq request = { .ifr_flags = (short)(IFF_TAP | IFF_NO_PI | flags) };
	int fd = open("/dev/net/tun", O_RDWR);

	CHECK(fd >= 0);
	strcpy(request.ifr_name, name);
	CHECK_EQUAL(ioctl(fd, TUNSETIFF, &request), 0);
	return fd;
}

static void test_names(void)
{
	int fd;

	port_init(&port, 256, 1536, NULL, NULL);
	refused("", 1, -EINVAL, "it has no name");
	refused("abcdefghijklmnop", 1, -ENAMETOOLONG, "more than 15 characters");
	refused("a/b", 1, -EINVAL, "cannot open tap interface a/b: the host allows no such name");
	refused("tap%d", 1, -EINVAL, "the host allows no such name");
	refused("lo", 1, -EINVAL, "cannot open tap interface lo: an interface of that name exists");
	refused(NAME, 17, -EINVAL, "16 is the most");
	fd = host_tap(NAME, 0);
	refused(NAME, 1, -EBUSY, "another program uses it");
	refused(NAME, 2, -EINVAL, "it has one queue, not 2; use queues=1");
	close(fd);
	fd = host_tap(NAME, IFF_MULTI_QUEUE);
	tap_set_up(NAME, 1500);
	refused(NAME, 1, -EBUSY, "another program uses it");
	refused(NAME, 2, -EBUSY, "another program uses it");
	CHECK_EQUAL(ioctl(fd, TUNSETPERSIST, 1), 0);
	close(fd);
	/* It has several queues, and one can be used. */
	tap_open(0, 0);
	tap->operations->close(tap);
	port_free(&port);
}

static void drop_rights(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	CHECK_EQUAL(syscall(SYS_capget, &header, data), 0);
	for (int i = 0; i < 2; i++)
		data[i].effective = 0;
	CHECK_EQUAL(syscall(SYS_capset, &header, data), 0);
}

static void test_rights(void)
{
	int fd = host_tap("other0", 0);

	port_init(&port, 256, 1536, NULL, NULL);
	CHECK_EQUAL(ioctl(fd, TUNSETOWNER, 12345), 0);
	CHECK_EQUAL(ioctl(fd, TUNSETPERSIST, 1), 0);
	close(fd);
	fd = host_tap("mine0", 0);
	CHECK_EQUAL(ioctl(fd, TUNSETOWNER, geteuid()), 0);
	CHECK_EQUAL(ioctl(fd, TUNSETPERSIST, 1), 0);
	close(fd);
	drop_rights();
	refused("other0", 1, -EPERM, "cannot open tap interface other0: it belongs to another "
		"user; ask root for 'ip link del other0 && ip tuntap add dev other0 mode tap "
		"user 0'");
	refused("new0", 1, -EPERM, "cannot open tap interface new0: it does not exist, and this "
		"user may not create it; ask root for 'ip tuntap add dev new0 mode tap user 0'");
	CHECK_EQUAL(tap_try_open("mine0", 1), 0);
	tap->operations->close(tap);
	port_free(&port);
}

/* In a mount namespace whose /dev/net has nothing at first. */
static void test_device(void)
{
	port_init(&port, 256, 1536, NULL, NULL);
	CHECK_EQUAL(unshare(CLONE_NEWNS), 0);
	CHECK_EQUAL(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	CHECK_EQUAL(mount("none", "/dev/net", "tmpfs", 0, NULL), 0);
	refused(NAME, 1, -ENOENT, "the host has no /dev/net/tun; ask root for 'modprobe tun'");
	CHECK_EQUAL(mknod("/dev/net/tun", S_IFCHR | 0600, makedev(10, 200)), 0);
	CHECK_EQUAL(setuid(12345), 0);
	refused(NAME, 1, -EACCES, "permission to open /dev/net/tun is denied; ask root for");
	port_free(&port);
}

static void refused_descriptor(int fd, int result, const char *text)
{
	char target[32];

	snprintf(target, sizeof(target), "fd=%d", fd);
	refused(target, 0, result, text);
}

static void test_descriptors(void)
{
	char target[32];
	int fd, out;

	port_init(&port, 256, 1536, tap_keep_last, NULL);
	refused("fd=", 0, -EINVAL, "cannot open tap:fd=: write up to 16 numbers");
	refused("fd=3,", 0, -EINVAL, "write up to 16 numbers");
	refused("fd=-3", 0, -EINVAL, "write up to 16 numbers");
	refused_descriptor(999, -EBADF, "cannot use descriptor 999 as a tap interface: Bad file");
	fd = open("/dev/null", O_RDWR);
	refused_descriptor(fd, -ENOTTY, "it is no tap interface");
	close(fd);
	fd = open("/dev/net/tun", O_RDWR);
	refused_descriptor(fd, -EBADFD, "it has no interface");
	close(fd);
	fd = host_tap(NAME, 0);
	refused_descriptor(fd, -EINVAL, "open it with IFF_TAP, IFF_NO_PI and IFF_VNET_HDR");
	close(fd);
	fd = host_tap(NAME, IFF_VNET_HDR);
	snprintf(target, sizeof(target), "fd=%d", fd);
	refused(target, 2, -EINVAL, "1 descriptors are no 2 queues");
	CHECK_EQUAL(tap_try_open(target, 0), 0);
	close(fd);
	CHECK_EQUAL(tap->operations->set_features(tap, 0), 0);
	tap_set_up(NAME, 1500);
	out = tap_packet_socket();
	tap_make_frame(1000, 3);
	tap_host_sends(out, 1000);
	CHECK(port_wait(&port, 0, 1, 10 * SECONDS));
	CHECK(!memcmp(last + HEADER, frame + HEADER, 1000));
	close(out);
	tap_finish();
}

/* The program makes its descriptor block: threads that receive, send and close do not. */
static void test_blocking_descriptor(void)
{
	static unsigned char got[OB_NET_FRAME_MOST];
	int fd = host_tap(NAME, IFF_VNET_HDR), out;
	char target[32];

	port_init(&port, 256, 1536, tap_keep_last, NULL);
	snprintf(target, sizeof(target), "fd=%d", fd);
	CHECK_EQUAL(tap_try_open(target, 0), 0);
	CHECK_EQUAL(fcntl(fd, F_SETFL, 0), 0);
	CHECK_EQUAL(tap->operations->set_features(tap, 0), 0);
	tap_set_up(NAME, 1500);
	out = tap_packet_socket();
	for (unsigned int i = 0; i < 20; i++) {
		tap_make_frame(1000, (unsigned char)i);
		tap_host_sends(out, 1000);
		CHECK(port_wait(&port, 0, i + 1, 10 * SECONDS));
		tap_transmit(0, 1000);
		CHECK_EQUAL(tap_host_receives(out, got), 1000);
		tap->operations->poll(tap, false);
		tap->operations->poll(tap, true);
	}
	close(out);
	tap_finish();
	close(fd);
}

static void set_attached(int fd, bool attach)
{
	struct ifreq request = {
		.ifr_flags = attach ? IFF_ATTACH_QUEUE : IFF_DETACH_QUEUE,
	};

	CHECK_EQUAL(ioctl(fd, TUNSETQUEUE, &request), 0);
}

static bool is_attached(int fd)
{
	struct ifreq request;

	CHECK_EQUAL(ioctl(fd, TUNGETIFF, &request), 0);
	return !(request.ifr_flags & IFF_DETACH_QUEUE);
}

/* The program gives two queues, and has both as before after the close. */
static void test_given_queues(void)
{
	int flags = IFF_VNET_HDR | IFF_MULTI_QUEUE;
	int first = host_tap(NAME, flags), second = host_tap(NAME, flags);
	char target[32];

	port_init(&port, 256, 1536, tap_keep_last, NULL);
	set_attached(second, false);
	refused_descriptor(second, -EINVAL, "its queue is detached; call TUNSETQUEUE");
	set_attached(second, true);
	snprintf(target, sizeof(target), "fd=%d:%d", first, second);
	CHECK_EQUAL(tap_try_open(target, 0), 0);
	CHECK(is_attached(first) && !is_attached(second));
	tap_finish();
	CHECK(is_attached(first) && is_attached(second));
	close(first);
	close(second);
}

static const struct tap_test tests[] = {
	{ "names", test_names },
	{ "rights", test_rights },
	{ "device", test_device },
	{ "descriptors", test_descriptors },
	{ "blocking-descriptor", test_blocking_descriptor },
	{ "given-queues", test_given_queues },
	{ 0 },
};

int main(int count, char **names)
{
	return tap_run_tests(tests, count, names);
}
