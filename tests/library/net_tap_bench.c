// SPDX-License-Identifier: GPL-2.0-only
/*
 * Measures the tap back-end against packet sockets of the host, without a kernel of ours. Run it in
 * a network namespace: unshare -n net_tap_bench [SECONDS]
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/futex.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "net_port.h"

#define NAME "outboard0"
#define HEADER OB_NET_HEADER_BYTES
#define ROUNDS 10000
#define SEGMENT 1448
#define FEATURE(name) (1ULL << VIRTIO_NET_F_##name)

static struct ob_net_port port;
static struct ob_net_backend *tap;
static unsigned char frame[OB_NET_FRAME_MOST];
static double seconds = 1;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- the host ---------------------------------------------------------------- */

static int packet_socket(int protocol)
{
	struct sockaddr_ll address = {
		.sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)protocol),
		.sll_ifindex = (int)if_nametoindex(NAME),
	};
	int fd = socket(AF_PACKET, SOCK_RAW, 0), one = 1, room = 4 << 20;

	CHECK(fd >= 0);
	CHECK_EQUAL(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)), 0);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
	CHECK_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Sends as fast as the tap's queue takes frames, or answers each frame. */
static pid_t start_host(size_t length, bool answers)
{
	static unsigned char got[OB_NET_FRAME_MOST];
	struct iovec parts[2] = { { frame, 10 }, { frame + HEADER, length - HEADER } };
	pid_t child = fork();
	int fd;

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = packet_socket(answers ? ETH_P_ALL : 0);
	for (;;) {
		if (answers && read(fd, got, sizeof(got)) < 24)
			continue;
		(void)!writev(fd, parts, 2);
	}
}

static void end_host(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void set_up(void)
{
	struct ifreq request = { .ifr_name = NAME };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	CHECK_EQUAL(ioctl(fd, SIOCGIFFLAGS, &request), 0);
	request.ifr_flags |= IFF_UP | IFF_NOARP;
	CHECK_EQUAL(ioctl(fd, SIOCSIFFLAGS, &request), 0);
	close(fd);
}

/* ---- frames ------------------------------------------------------------------ */

/* UDP, or a TCP segment that is segmented later if it is longer than a packet. */
static void make(size_t length)
{
	struct virtio_net_hdr *header = (void *)frame;
	unsigned char *ip = frame + HEADER + 14;
	size_t size = length - HEADER - 14;

	memset(frame, 0, sizeof(frame));
	memcpy(frame + HEADER, "\2\0\0\0\0\2\2\0\0\0\0\1\x08", 13);
	ip[0] = 0x45;
	ip[2] = (unsigned char)(size >> 8);
	ip[3] = (unsigned char)size;
	memcpy(ip + 8, "\x40\x06", 2);
	memcpy(ip + 12, "\x0a\x09\x00\x01\x0a\x09\x00\x02", 8);
	memcpy(ip + 20 + 12, "\x50\x10\x20", 3);
	if (length < HEADER + 1515)
		return;
	header->flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
	header->csum_start = 34;
	header->csum_offset = 16;
	header->hdr_len = 54;
	header->gso_type = VIRTIO_NET_HDR_GSO_TCPV4;
	header->gso_size = SEGMENT;
}

static void transmit(size_t length)
{
	struct iovec pieces[OB_NET_PIECES_MOST];
	int count = 0;

	for (size_t at = 0; at < length; at += 4096, count++)
		pieces[count] = (struct iovec){
			frame + at, length - at < 4096 ? length - at : 4096
		};
	CHECK_EQUAL(tap->operations->transmit(tap, 0, pieces, count), 0);
}

/* ---- measurements ------------------------------------------------------------- */

static struct {
	uint32_t left;		/* the futex of the main thread */
	useconds_t pause;
	double start, times[ROUNDS];
} round_trips;

static void ask(void)
{
	if (round_trips.pause)
		usleep(round_trips.pause);
	round_trips.start = now();
	transmit(HEADER + 66);
}

static void on_frame(void *context, unsigned int queue, const struct iovec *pieces, int count,
		     size_t length)
{
	uint32_t left = __atomic_load_n(&round_trips.left, __ATOMIC_ACQUIRE);

	(void)context;
	(void)queue;
	(void)pieces;
	(void)count;
	(void)length;
	if (!left)
		return;
	round_trips.times[left - 1] = now() - round_trips.start;
	if (left > 1)
		ask();
	__atomic_store_n(&round_trips.left, left - 1, __ATOMIC_RELEASE);
	if (left == 1)
		syscall(SYS_futex, &round_trips.left, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure_round_trip(const char *name, uint32_t rounds, useconds_t pause)
{
	uint32_t left;
	pid_t host;

	make(HEADER + 66);
	host = start_host(HEADER + 66, true);
	usleep(100000);
	round_trips.pause = pause;
	__atomic_store_n(&round_trips.left, rounds, __ATOMIC_RELEASE);
	ask();
	while ((left = __atomic_load_n(&round_trips.left, __ATOMIC_ACQUIRE)))
		syscall(SYS_futex, &round_trips.left, FUTEX_WAIT, left, NULL, NULL, 0);
	end_host(host);
	qsort(round_trips.times, rounds, sizeof(double), compare);
	printf("%-28s median %7.2f us   p99 %7.2f us\n", name, round_trips.times[rounds / 2] * 1e6,
	       round_trips.times[rounds * 99 / 100] * 1e6);
}

static void report(const char *name, uint64_t frames, size_t length, double time)
{
	printf("%-28s %9.0f frames/s %7.2f Gbit/s\n", name, (double)frames / time,
	       (double)frames * (double)length * 8 / time / 1e9);
}

static void measure_in(const char *name, size_t length)
{
	uint64_t before;
	pid_t host;
	double start;

	make(length);
	host = start_host(length, false);
	usleep(100000);
	before = port_frames(&port, 0);
	start = now();
	usleep((useconds_t)(seconds * 1e6));
	report(name, port_frames(&port, 0) - before, length, now() - start);
	end_host(host);
}

/* Nobody on the host takes the frames: this is what a write costs. */
static void measure_out(const char *name, size_t length)
{
	double start = now(), time;
	uint64_t frames = 0;

	make(length);
	do {
		for (int i = 0; i < 16; i++, frames++)
			transmit(length);
		time = now() - start;
	} while (time < seconds);
	report(name, frames, length, time);
}

int main(int count, char **arguments)
{
	struct ob_net_request request = { .target = NAME };
	char error[256];

	if (count > 1)
		seconds = atof(arguments[1]);
	setlinebuf(stdout);
	port_init(&port, 512, 4096, on_frame, NULL);
	if (ob_net_tap_open(NULL, &port, &request, &tap, error, sizeof(error))) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	set_up();
	CHECK_EQUAL(tap->operations->set_features(tap, FEATURE(GUEST_CSUM) | FEATURE(GUEST_TSO4)),
		    0);
	measure_round_trip("round trip, busy", ROUNDS, 0);
	measure_round_trip("round trip, after 1 ms", 500, 1000);
	measure_in("in, 64 KB frames", HEADER + 65000);
	measure_in("in, 1514 bytes", HEADER + 1514);
	measure_in("in, 66 bytes", HEADER + 66);
	measure_out("out, 64 KB frames", HEADER + 65000);
	measure_out("out, 1514 bytes", HEADER + 1514);
	measure_out("out, 66 bytes", HEADER + 66);
	tap->operations->close(tap);
	return 0;
}
