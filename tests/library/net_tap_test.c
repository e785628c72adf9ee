// SPDX-License-Identifier: GPL-2.0-only
/*
 * The tap back-end against the host's kernel, in a network namespace of its own. The other end of
 * the tap is a packet socket of the host. Arguments: names of tests; none: all.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "net_port.h"
#include "tap.h"
#include "threads.h"

#define NAME "outboard0"
#define HEADER OB_NET_HEADER_BYTES
#define ETHERTYPE 0x88b5		/* for experiments */
#define FEATURE(name) (1ULL << VIRTIO_NET_F_##name)
#define SEGMENTS (FEATURE(GUEST_CSUM) | FEATURE(GUEST_TSO4) | FEATURE(GUEST_TSO6))
#define SECONDS 1000

static struct ob_net_port port;
static struct ob_net_backend *tap;
static char error[256];
static unsigned char frame[OB_NET_FRAME_MOST], last[OB_NET_FRAME_MOST];
static size_t last_length;

/* ---- helpers ---------------------------------------------------------------- */

static void keep_last(void *context, unsigned int queue, const struct iovec *pieces, int count,
		      size_t length)
{
	(void)context;
	(void)queue;
	(void)count;
	port_copy(last, pieces, 0, length);
	last_length = length;
}

static int try_open(const char *target, unsigned int queues)
{
	struct ob_net_request request = { .target = target, .queues = queues };

	tap = NULL;
	error[0] = '\0';
	return ob_net_tap_open(NULL, &port, &request, &tap, error, sizeof(error));
}

static void set_up(const char *name, int mtu)
{
	struct ifreq request = { .ifr_mtu = mtu };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	strcpy(request.ifr_name, name);
	CHECK_EQUAL(ioctl(fd, SIOCSIFMTU, &request), 0);
	CHECK_EQUAL(ioctl(fd, SIOCGIFFLAGS, &request), 0);
	request.ifr_flags |= IFF_UP | IFF_NOARP;
	CHECK_EQUAL(ioctl(fd, SIOCSIFFLAGS, &request), 0);
	close(fd);
}

/* A thread of the back-end sets the offloads: waits until the host has them. */
static void set_features(uint64_t features)
{
	struct ethtool_value value = { .cmd = ETHTOOL_GTSO };
	struct ifreq request = { .ifr_data = (char *)&value };
	bool wanted = features & FEATURE(GUEST_TSO4);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	strcpy(request.ifr_name, NAME);
	CHECK_EQUAL(tap->operations->set_features(tap, features), 0);
	for (int i = 0; i < 10000; i++, usleep(1000)) {
		CHECK_EQUAL(ioctl(fd, SIOCETHTOOL, &request), 0);
		if (value.data == wanted)
			break;
	}
	CHECK_EQUAL(value.data, wanted);
	close(fd);
}

static void open_tap(unsigned int queues, uint64_t features)
{
	int result = try_open(NAME, queues);

	if (result)
		fprintf(stderr, "%s\n", error);
	CHECK_EQUAL(result, 0);
	set_up(NAME, 1500);
	set_features(features);
}

static void setup(uint64_t features)
{
	port_init(&port, 256, 1536, keep_last, NULL);
	open_tap(1, features);
}

static void finish(void)
{
	tap->operations->close(tap);
	port_free(&port);
	CHECK_EQUAL(threads_named("outboard-tap", NULL), 0);
}

/* The host's end of the interface. Its frames have virtio headers of 10 bytes. */
static int packet_socket(void)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
		.sll_ifindex = (int)if_nametoindex(NAME),
	};
	struct timeval timeout = { .tv_sec = 10 };
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1, room = 4 << 20;

	CHECK(fd >= 0);
	CHECK_EQUAL(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	CHECK_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Fills in `frame`: `size` bytes from the Ethernet header on. */
static void make_frame(size_t size, unsigned char seed)
{
	memset(frame, 0, HEADER);
	for (size_t i = 0; i < size; i++)
		frame[HEADER + i] = (unsigned char)(i * 7 + seed + (i >> 8));
	memcpy(frame + HEADER, "\2\0\0\0\0\2\2\0\0\0\0\1", 12);
	frame[HEADER + 12] = ETHERTYPE >> 8;
	frame[HEADER + 13] = ETHERTYPE & 0xff;
}

/* Sends `frame` from the host into the tap. */
static void host_sends(int fd, size_t size)
{
	struct iovec parts[2] = { { frame, 10 }, { frame + HEADER, size } };

	CHECK_EQUAL(writev(fd, parts, 2), 10 + (long)size);
}

static void transmit(unsigned int queue, size_t size)
{
	struct iovec pieces[OB_NET_PIECES_MOST];
	int count = 0;

	for (size_t at = 0; at < HEADER + size; at += 4000, count++) {
		size_t rest = HEADER + size - at;

		pieces[count] = (struct iovec){ frame + at, rest < 4000 ? rest : 4000 };
	}
	CHECK_EQUAL(tap->operations->transmit(tap, queue, pieces, count), 0);
	if (tap->operations->transmit_end)
		tap->operations->transmit_end(tap, queue);
}

/* Returns the next frame of our type that the host gets, without its virtio header. */
static long host_receives(int fd, unsigned char *bytes)
{
	struct virtio_net_hdr header;
	struct iovec parts[2] = { { &header, sizeof(header) }, { bytes, OB_NET_FRAME_MOST } };
	long length;

	do {
		length = readv(fd, parts, 2);
		CHECK(length > 24);
	} while (memcmp(bytes + 6, "\2\0\0\0\0\1", 6));
	return length - (long)sizeof(header);
}

/* ---- frames ----------------------------------------------------------------- */

static void test_frames(void)
{
	static const size_t sizes[] = { 60, 61, 1000, 1513, 1514 };
	static unsigned char got[OB_NET_FRAME_MOST];
	int fd;

	setup(0);
	CHECK_EQUAL(tap->mtu, 1500);
	fd = packet_socket();
	for (unsigned int i = 0; i < 5; i++) {
		make_frame(sizes[i], (unsigned char)i);
		host_sends(fd, sizes[i]);
		CHECK(port_wait(&port, 0, i + 1, 10 * SECONDS));
		CHECK_EQUAL(last_length, HEADER + sizes[i]);
		CHECK(!memcmp(last + HEADER, frame + HEADER, sizes[i]));
		make_frame(sizes[i], (unsigned char)(i + 100));
		transmit(0, sizes[i]);
		CHECK_EQUAL(host_receives(fd, got), sizes[i]);
		CHECK(!memcmp(got, frame + HEADER, sizes[i]));
	}
	close(fd);
	finish();
}

/* ---- segmentation and checksums --------------------------------------------- */

#define TCP_HEADERS (14 + 20 + 20)
#define SEGMENT 1448

static uint16_t sum(const unsigned char *bytes, size_t size, uint32_t start)
{
	for (size_t i = 0; i + 1 < size; i += 2)
		start += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	if (size & 1)
		start += (uint32_t)bytes[size - 1] << 8;
	while (start >> 16)
		start = (start & 0xffff) + (start >> 16);
	return (uint16_t)start;
}

static void put_16(unsigned char *at, uint16_t value)
{
	at[0] = (unsigned char)(value >> 8);
	at[1] = (unsigned char)value;
}

/* A TCP segment of `size` bytes of data, to be checksummed and segmented by whoever needs that. */
static void make_segment(size_t size)
{
	struct virtio_net_hdr *header = (void *)frame;
	unsigned char *ip = frame + HEADER + 14, *tcp = ip + 20;

	make_frame(TCP_HEADERS + size, 1);
	put_16(frame + HEADER + 12, ETH_P_IP);
	memset(ip, 0, 40);
	memcpy(ip, "\x45", 1);
	put_16(ip + 2, (uint16_t)(40 + size));
	memcpy(ip + 8, "\x40\x06", 2);
	memcpy(ip + 12, "\x0a\x09\x00\x01\x0a\x09\x00\x02", 8);
	put_16(ip + 10, (uint16_t)~sum(ip, 20, 0));
	memcpy(tcp, "\x10\x00\x20\x00", 4);
	memcpy(tcp + 12, "\x50\x10\x20", 3);
	put_16(tcp + 16, sum(ip + 12, 8, 6 + 20 + (uint32_t)size));
	header->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	header->csum_start = 34;
	header->csum_offset = 16;
	header->hdr_len = TCP_HEADERS;
	if (size > SEGMENT) {
		header->gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
		header->gso_size = SEGMENT;
	}
}

/* Without its checksum, which may be partial. */
static void check_segment(const unsigned char *got, size_t size)
{
	CHECK(!memcmp(got, frame + HEADER, 14 + 20 + 16));
	CHECK(!memcmp(got + 14 + 20 + 18, frame + HEADER + 14 + 20 + 18, size - 14 - 20 - 18));
}

static void test_segments(void)
{
	static unsigned char got[OB_NET_FRAME_MOST];
	struct virtio_net_hdr *header = (void *)last;
	/* The host itself segments frames of 64 KB and more. */
	const size_t data = 65535 - TCP_HEADERS, segments = (data + SEGMENT - 1) / SEGMENT;
	int fd;

	setup(SEGMENTS);
	CHECK_EQUAL(tap->offloads & SEGMENTS, SEGMENTS);
	fd = packet_socket();
	make_segment(data);
	host_sends(fd, TCP_HEADERS + data);
	CHECK(port_wait(&port, 0, 1, 10 * SECONDS));
	CHECK_EQUAL(last_length, HEADER + TCP_HEADERS + data);
	CHECK_EQUAL(header->gso_type, VIRTIO_NET_HDR_GSO_TCPV4);
	CHECK_EQUAL(header->gso_size, SEGMENT);
	CHECK_EQUAL(header->flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
	check_segment(last + HEADER, TCP_HEADERS + data);
	transmit(0, TCP_HEADERS + data);
	CHECK_EQUAL(host_receives(fd, got), TCP_HEADERS + data);
	check_segment(got, TCP_HEADERS + data);
	/* The kernel's driver starts again and accepts nothing: the host makes the segments. */
	set_features(0);
	host_sends(fd, TCP_HEADERS + data);
	CHECK(port_wait(&port, 0, 1 + segments, 10 * SECONDS));
	CHECK_EQUAL(header->gso_type, VIRTIO_NET_HDR_GSO_NONE);
	CHECK_EQUAL(header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM, 0);
	CHECK_EQUAL(last_length, HEADER + TCP_HEADERS + data % SEGMENT);
	CHECK_EQUAL(port_frames(&port, 0), 1 + segments);
	close(fd);
	finish();
}

/* ---- room ------------------------------------------------------------------- */

static void number_frame(unsigned int number)
{
	make_frame(1514, 0);
	memcpy(frame + HEADER + 14, &number, sizeof(number));
}

static void check_numbers(void *context, unsigned int queue, const struct iovec *pieces, int count,
			  size_t length)
{
	unsigned int *next = context, number;

	(void)queue;
	(void)count;
	CHECK_EQUAL(length, HEADER + 1514);
	port_copy(&number, pieces, HEADER + 14, sizeof(number));
	CHECK_EQUAL(number, (*next)++);
}

/* A kernel that is slow loses no frame as long as the tap's queue has room. */
static void test_no_room(void)
{
	unsigned int next = 0;
	uint64_t before;
	int fd;

	port_init(&port, 64, 1536, check_numbers, &next);
	port.hold = true;
	open_tap(1, 0);
	fd = packet_socket();
	for (unsigned int i = 0; i < 300; i++) {
		number_frame(i);
		host_sends(fd, 1514);
	}
	usleep(50000);
	before = port_frames(&port, 0);
	CHECK(before > 0 && before < 64);
	port_release(&port, 0);
	CHECK(port_wait(&port, 0, 300, 10 * SECONDS));
	close(fd);
	finish();
}

/* The kernel's driver takes no large frames: small ones do not wait for the room of a large one. */
static void test_small_frames(void)
{
	unsigned int next = 0;
	int fd;

	/* No such ring has room for the largest frame of a segmentation offload. */
	port_init(&port, 40, 1536, check_numbers, &next);
	port.frame_most = HEADER + 18 + 1500;
	open_tap(1, 0);
	fd = packet_socket();
	for (unsigned int i = 0; i < 100; i++) {
		number_frame(i);
		host_sends(fd, 1514);
	}
	CHECK(port_wait(&port, 0, 100, 10 * SECONDS));
	CHECK_EQUAL(port.waits, 0);
	close(fd);
	finish();
}

/* The ring never has room for the largest frame. What does not fit is dropped, not cut. */
static void test_small_ring(void)
{
	int fd;

	port_init(&port, 2, 1536, keep_last, NULL);
	open_tap(1, SEGMENTS);
	fd = packet_socket();
	make_segment(1000);
	host_sends(fd, TCP_HEADERS + 1000);
	CHECK(port_wait(&port, 0, 1, 10 * SECONDS));
	make_segment(10000);
	host_sends(fd, TCP_HEADERS + 10000);
	make_segment(2900);
	host_sends(fd, TCP_HEADERS + 2900);
	CHECK(port_wait(&port, 0, 2, 10 * SECONDS));
	CHECK_EQUAL(last_length, HEADER + TCP_HEADERS + 2900);
	close(fd);
	finish();
}

static void test_close_while_waiting(void)
{
	int fd;

	setup(0);
	port.hold = true;
	fd = packet_socket();
	for (unsigned int i = 0; i < 300; i++) {
		number_frame(i);
		host_sends(fd, 1514);
	}
	CHECK(port_wait(&port, 0, 200, 10 * SECONDS));
	close(fd);
	finish();
}

/* ---- names, rights, descriptors --------------------------------------------- */

static void refused(const char *target, unsigned int queues, int result, const char *text)
{
	CHECK_EQUAL(try_open(target, queues), result);
	if (!strstr(error, text)) {
		fprintf(stderr, "%s: '%s' does not contain '%s'\n", target, error, text);
		_Exit(1);
	}
	CHECK(!strchr(error, '\n'));
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
	set_up(NAME, 1500);
	refused(NAME, 1, -EBUSY, "another program uses it");
	refused(NAME, 2, -EBUSY, "another program uses it");
	CHECK_EQUAL(ioctl(fd, TUNSETPERSIST, 1), 0);
	close(fd);
	/* It has several queues, and one can be used. */
	open_tap(0, 0);
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
	CHECK_EQUAL(try_open("mine0", 1), 0);
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

	port_init(&port, 256, 1536, keep_last, NULL);
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
	CHECK_EQUAL(try_open(target, 0), 0);
	close(fd);
	CHECK_EQUAL(tap->operations->set_features(tap, 0), 0);
	set_up(NAME, 1500);
	out = packet_socket();
	make_frame(1000, 3);
	host_sends(out, 1000);
	CHECK(port_wait(&port, 0, 1, 10 * SECONDS));
	CHECK(!memcmp(last + HEADER, frame + HEADER, 1000));
	close(out);
	finish();
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

	port_init(&port, 256, 1536, keep_last, NULL);
	set_attached(second, false);
	refused_descriptor(second, -EINVAL, "its queue is detached; call TUNSETQUEUE");
	set_attached(second, true);
	snprintf(target, sizeof(target), "fd=%d:%d", first, second);
	CHECK_EQUAL(try_open(target, 0), 0);
	CHECK(is_attached(first) && !is_attached(second));
	finish();
	CHECK(is_attached(first) && is_attached(second));
	close(first);
	close(second);
}

/* ---- queues ----------------------------------------------------------------- */

/* UDP from us to the host with the given port, or the answer to it. */
static void make_datagram(uint16_t client, bool answer)
{
	unsigned char *ip = frame + HEADER + 14, *udp = ip + 20;

	make_frame(142, (unsigned char)client);
	put_16(frame + HEADER + 12, ETH_P_IP);
	memset(ip, 0, 28);
	memcpy(ip, "\x45\0\0\x80", 4);
	memcpy(ip + 8, "\x40\x11", 2);
	memcpy(ip + (answer ? 12 : 16), "\x0a\x09\x00\x01", 4);
	memcpy(ip + (answer ? 16 : 12), "\x0a\x09\x00\x02", 4);
	put_16(ip + 10, (uint16_t)~sum(ip, 20, 0));
	put_16(udp + (answer ? 0 : 2), 4000);
	put_16(udp + (answer ? 2 : 0), client);
	put_16(udp + 4, 108);
}

/* Sends from a queue. Returns the queue that gets the answer; -1: it is lost, or late. */
static int answered_queue(int fd, unsigned int queue, uint16_t client)
{
	uint64_t before = port_frames(&port, 0) + port_frames(&port, 1), first;

	make_datagram(client, false);
	transmit(queue, 142);
	make_datagram(client, true);
	first = port_frames(&port, 0);
	host_sends(fd, 142);
	for (int i = 0; i < 200; i++) {
		if (port_frames(&port, 0) + port_frames(&port, 1) > before)
			return port_frames(&port, 0) == first;
		usleep(1000);
	}
	return -1;
}

/* Threads of the back-end attach and detach queues: the answers soon come to the right one. */
static void expect_answer(int fd, unsigned int queue, uint16_t client, int wanted)
{
	int answered = -1;

	for (int i = 0; i < 1000 && answered != wanted; i++)
		answered = answered_queue(fd, queue, client);
	CHECK_EQUAL(answered, wanted);
}

static void test_queues(void)
{
	int fd;

	port_init(&port, 256, 1536, keep_last, NULL);
	open_tap(2, 0);
	CHECK_EQUAL(tap->queues, 2);
	fd = packet_socket();
	expect_answer(fd, 0, 5000, 0);
	for (int round = 0; round < 3; round++) {
		CHECK_EQUAL(tap->operations->set_queues(tap, 2), 0);
		expect_answer(fd, 1, (uint16_t)(6000 + round), 1);
		expect_answer(fd, 0, (uint16_t)(7000 + round), 0);
		CHECK_EQUAL(tap->operations->set_queues(tap, 1), 0);
		expect_answer(fd, 0, (uint16_t)(6000 + round), 0);
	}
	close(fd);
	finish();
}

/* ---- ends ------------------------------------------------------------------- */

static void wait_for_sleep(void)
{
	pid_t thread = 0;

	CHECK_EQUAL(threads_named("outboard-tap", &thread), 1);
	for (int i = 0; i < 10000 && host_state(thread) != 'S'; i++)
		usleep(1000);
	for (int i = 0; i < 20; i++, usleep(1000))
		CHECK_EQUAL(host_state(thread), 'S');
}

/* ---- polling ------------------------------------------------------------------ */

static void look(bool is_last)
{
	tap->operations->poll(tap, is_last);
}

static uint32_t taker(void)
{
	return __atomic_load_n(&((struct ob_tap *)tap)->queues[0].taker.state, __ATOMIC_SEQ_CST);
}

/* Looks until the queue's thread leaves the frames to those who poll. */
static void begin_to_poll(void)
{
	while (taker() != TAKER_POLLERS) {
		usleep(1000);
		look(false);
	}
}

static void send_one(int fd)
{
	make_frame(100, 0);
	host_sends(fd, 100);
}

/* While a thread polls, the queue's thread leaves frames to it. Its next look finds them. */
static void test_poll(void)
{
	uint64_t before;
	int left = 0, fd;

	setup(0);
	fd = packet_socket();
	for (int i = 0; i < 20; i++) {
		begin_to_poll();
		before = port_frames(&port, 0);
		send_one(fd);
		usleep(1000);
		left += port_frames(&port, 0) == before;
		look(false);
		CHECK(port_wait(&port, 0, before + 1, 10 * SECONDS));
		look(true);
	}
	CHECK(left >= 10);
	close(fd);
	finish();
}

/*
 * After a wait without frames they are the queue's thread's again: it does not wait for its look at
 * the pollers, once a second.
 */
static void test_last_look(void)
{
	time_t begin = time(NULL);
	int fd;

	setup(0);
	fd = packet_socket();
	for (unsigned int i = 0; i < 100; i++) {
		begin_to_poll();
		look(true);
		usleep(2000);
		send_one(fd);
		CHECK(port_wait(&port, 0, i + 1, 10 * SECONDS));
	}
	CHECK(time(NULL) - begin < 50);
	close(fd);
	finish();
}

/* A wait in which a frame comes. */
static void wait_with_frame(int fd)
{
	uint64_t before = port_frames(&port, 0);

	begin_to_poll();
	send_one(fd);
	look(false);
	look(true);
	CHECK(port_wait(&port, 0, before + 1, 10 * SECONDS));
}

/* After some waits with frames the tap stays with those who poll, as long as they come. */
static void test_stays(void)
{
	int fd, stayed = 0;

	setup(0);
	fd = packet_socket();
	for (unsigned int i = 0; i < 50; i++) {
		wait_with_frame(fd);
		stayed += taker() == TAKER_POLLERS;
	}
	CHECK(stayed);
	send_one(fd);
	CHECK(port_wait(&port, 0, 51, 10 * SECONDS));
	close(fd);
	finish();
}

/* A thread that polls is stopped, or in a signal handler: the queue's thread takes over. */
static void test_stopped_poll(void)
{
	int fd;

	setup(0);
	fd = packet_socket();
	begin_to_poll();
	send_one(fd);
	CHECK(port_wait(&port, 0, 1, 60 * SECONDS));
	close(fd);
	finish();
}

/* The queue's thread does its other work while threads poll. */
static void test_notice_while_polled(void)
{
	setup(0);
	for (int i = 0; i < 20; i++) {
		begin_to_poll();
		set_features(i % 2 ? 0 : SEGMENTS);
	}
	begin_to_poll();
	finish();
}

static bool polls;

static void *poll_all_the_time(void *unused)
{
	while (__atomic_load_n(&polls, __ATOMIC_RELAXED)) {
		for (int i = 0; i < 5; i++)
			look(i == 4);
		usleep(20);
	}
	return unused;
}

/* The queue's thread and one that polls take turns. No frame is lost, doubled or out of order. */
static void test_turns(void)
{
	unsigned int next = 0;
	pthread_t thread;
	int fd;

	port_init(&port, 256, 1536, check_numbers, &next);
	open_tap(1, 0);
	fd = packet_socket();
	polls = true;
	CHECK_EQUAL(pthread_create(&thread, NULL, poll_all_the_time, NULL), 0);
	for (unsigned int i = 0; i < 20000; i++) {
		number_frame(i);
		host_sends(fd, 1514);
		if (i % 100 == 99)
			CHECK(port_wait(&port, 0, i + 1, 60 * SECONDS));
		if (i % 1000 == 0)
			usleep(2000);
	}
	__atomic_store_n(&polls, false, __ATOMIC_RELAXED);
	CHECK_EQUAL(pthread_join(thread, NULL), 0);
	CHECK_EQUAL(next, 20000);
	close(fd);
	finish();
}

static void test_deleted(void)
{
	setup(0);
	CHECK_EQUAL(system("ip link del " NAME), 0);
	wait_for_sleep();
	make_frame(100, 0);
	CHECK(tap->operations->transmit(tap, 0, &(struct iovec){ frame, 112 }, 1) < 0);
	finish();
}

static void test_fork(void)
{
	pid_t child;
	int fd, status;

	setup(0);
	fd = packet_socket();
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		/* Only what belongs to the tap was closed. */
		int before = dup(0);

		tap->operations->forked(tap);
		CHECK(dup(0) <= before);
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	make_frame(500, 9);
	host_sends(fd, 500);
	CHECK(port_wait(&port, 0, 1, 10 * SECONDS));
	close(fd);
	finish();
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "frames", test_frames },
	{ "segments", test_segments },
	{ "no-room", test_no_room },
	{ "small-frames", test_small_frames },
	{ "small-ring", test_small_ring },
	{ "close-while-waiting", test_close_while_waiting },
	{ "names", test_names },
	{ "rights", test_rights },
	{ "device", test_device },
	{ "descriptors", test_descriptors },
	{ "given-queues", test_given_queues },
	{ "queues", test_queues },
	{ "poll", test_poll },
	{ "last-look", test_last_look },
	{ "stays", test_stays },
	{ "stopped-poll", test_stopped_poll },
	{ "notice-while-polled", test_notice_while_polled },
	{ "turns", test_turns },
	{ "deleted", test_deleted },
	{ "fork", test_fork },
};

/* The host would send frames of its own. */
static void no_ipv6(void)
{
	int fd = open("/proc/sys/net/ipv6/conf/default/disable_ipv6", O_WRONLY);

	if (fd < 0)
		return;		/* it has no IPv6 */
	CHECK_EQUAL(write(fd, "1", 1), 1);
	close(fd);
}

/* Each test has a process and a network namespace of its own. */
static void run_test(void (*run)(void))
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		CHECK_EQUAL(unshare(CLONE_NEWNET), 0);
		no_ipv6();
		run();
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	if (status)
		_Exit(1);
}

int main(int count, char **names)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		bool chosen = count == 1;

		for (int j = 1; j < count; j++)
			chosen |= !strcmp(names[j], tests[i].name);
		if (!chosen)
			continue;
		fprintf(stderr, "%s\n", tests[i].name);
		run_test(tests[i].run);
	}
	return 0;
}
