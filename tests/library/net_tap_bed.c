// SPDX-License-Identifier: GPL-2.0-only
/* See net_tap_bed.h. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "net_tap_bed.h"
#include "threads.h"

#define ETHERTYPE 0x88b5		/* for experiments */

struct ob_net_port port;
struct ob_net_backend *tap;
char tap_error[256];
unsigned char frame[OB_NET_FRAME_MOST], last[OB_NET_FRAME_MOST];
size_t last_length;

void tap_keep_last(void *context, unsigned int queue, const struct iovec *pieces, int count,
		   size_t length)
{
	(void)context;
	(void)queue;
	(void)count;
	port_copy(last, pieces, 0, length);
	last_length = length;
}

int tap_try_open(const char *target, unsigned int queues)
{
	struct ob_net_request request = { .target = target, .queues = queues };

	tap = NULL;
	tap_error[0] = '\0';
	return ob_net_tap_open(NULL, &port, &request, &tap, tap_error, sizeof(tap_error));
}

void tap_set_up(const char *name, int mtu)
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

void tap_set_features(uint64_t features)
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

void tap_open(unsigned int queues, uint64_t features)
{
	int result = tap_try_open(NAME, queues);

	if (result)
		fprintf(stderr, "%s\n", tap_error);
	CHECK_EQUAL(result, 0);
	tap_set_up(NAME, 1500);
	tap_set_features(features);
}

void tap_setup(uint64_t features)
{
	port_init(&port, 256, 1536, tap_keep_last, NULL);
	tap_open(1, features);
}

void tap_finish(void)
{
	tap->operations->close(tap);
	port_free(&port);
	CHECK_EQUAL(threads_named("outboard-tap", NULL), 0);
}

int tap_packet_socket(void)
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

void tap_make_frame(size_t size, unsigned char seed)
{
	memset(frame, 0, HEADER);
	for (size_t i = 0; i < size; i++)
		frame[HEADER + i] = (unsigned char)(i * 7 + seed + (i >> 8));
	memcpy(frame + HEADER, "\2\0\0\0\0\2\2\0\0\0\0\1", 12);
	frame[HEADER + 12] = ETHERTYPE >> 8;
	frame[HEADER + 13] = ETHERTYPE & 0xff;
}

void tap_host_sends(int fd, size_t size)
{
	struct iovec parts[2] = { { frame, 10 }, { frame + HEADER, size } };

	CHECK_EQUAL(writev(fd, parts, 2), 10 + (long)size);
}

void tap_transmit(unsigned int queue, size_t size)
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

long tap_host_receives(int fd, unsigned char *bytes)
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

void tap_number_frame(unsigned int number)
{
	tap_make_frame(1514, 0);
	memcpy(frame + HEADER + 14, &number, sizeof(number));
}

void tap_check_numbers(void *context, unsigned int queue, const struct iovec *pieces, int count,
		       size_t length)
{
	unsigned int *next = context, number;

	(void)queue;
	(void)count;
	CHECK_EQUAL(length, HEADER + 1514);
	port_copy(&number, pieces, HEADER + 14, sizeof(number));
	CHECK_EQUAL(number, (*next)++);
}

/* ---- tests -------------------------------------------------------------------- */

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

static bool is_test(const struct tap_test *tests, const char *name)
{
	for (; tests->name; tests++) {
		if (!strcmp(tests->name, name))
			return true;
	}
	return false;
}

int tap_run_tests(const struct tap_test *tests, int count, char **names)
{
	for (int i = 1; i < count; i++)
		CHECK(is_test(tests, names[i]));
	for (; tests->name; tests++) {
		bool chosen = count == 1;

		for (int i = 1; i < count; i++)
			chosen |= !strcmp(names[i], tests->name);
		if (!chosen)
			continue;
		fprintf(stderr, "%s\n", tests->name);
		run_test(tests->run);
	}
	return 0;
}
