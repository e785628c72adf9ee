// SPDX-License-Identifier: GPL-2.0-only
/*
 * Transfers by the tap back-end, against the host's kernel. Arguments: names of tests; none: all.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "net_tap_bed.h"
#include "tap.h"
#include "threads.h"

/* ---- frames ----------------------------------------------------------------- */

static void test_frames(void)
{
	static const size_t sizes[] = { 60, 61, 1000, 1513, 1514 };
	static unsigned char got[OB_NET_FRAME_MOST];
	int fd;

	tap_setup(0);
	CHECK_EQUAL(tap->mtu, 1500);
	fd = tap_packet_socket();
	for (unsigned int i = 0; i < 5; i++) {
		tap_make_frame(sizes[i], (unsigned char)i);
		tap_host_sends(fd, sizes[i]);
		CHECK(port_wait(&port, 0, i + 1, 10 * SECONDS));
		CHECK_EQUAL(last_length, HEADER + sizes[i]);
		CHECK(!memcmp(last + HEADER, frame + HEADER, sizes[i]));
		tap_make_frame(sizes[i], (unsigned char)(i + 100));
		tap_transmit(0, sizes[i]);
		CHECK_EQUAL(tap_host_receives(fd, got), sizes[i]);
		CHECK(!memcmp(got, frame + HEADER, sizes[i]));
	}
	close(fd);
	tap_finish();
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

	tap_make_frame(TCP_HEADERS + size, 1);
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

	tap_setup(SEGMENTS);
	CHECK_EQUAL(tap->offloads & SEGMENTS, SEGMENTS);
	fd = tap_packet_socket();
	make_segment(data);
	tap_host_sends(fd, TCP_HEADERS + data);
	CHECK(port_wait(&port, 0, 1, 10 * SECONDS));
	CHECK_EQUAL(last_length, HEADER + TCP_HEADERS + data);
	CHECK_EQUAL(header->gso_type, VIRTIO_NET_HDR_GSO_TCPV4);
	CHECK_EQUAL(header->gso_size, SEGMENT);
	CHECK_EQUAL(header->flags, VIRTIO_NET_HDR_F_NEEDS_CSUM);
	check_segment(last + HEADER, TCP_HEADERS + data);
	tap_transmit(0, TCP_HEADERS + data);
	CHECK_EQUAL(tap_host_receives(fd, got), TCP_HEADERS + data);
	check_segment(got, TCP_HEADERS + data);
	/* The kernel's driver starts again and accepts nothing: the host makes the segments. */
	tap_set_features(0);
	tap_host_sends(fd, TCP_HEADERS + data);
	CHECK(port_wait(&port, 0, 1 + segments, 10 * SECONDS));
	CHECK_EQUAL(header->gso_type, VIRTIO_NET_HDR_GSO_NONE);
	CHECK_EQUAL(header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM, 0);
	CHECK_EQUAL(last_length, HEADER + TCP_HEADERS + data % SEGMENT);
	CHECK_EQUAL(port_frames(&port, 0), 1 + segments);
	close(fd);
	tap_finish();
}

/* ---- room ------------------------------------------------------------------- */

/* A kernel that is slow loses no frame as long as the tap's queue has room. */
static void test_no_room(void)
{
	unsigned int next = 0;
	uint64_t before;
	int fd;

	port_init(&port, 64, 1536, tap_check_numbers, &next);
	port.hold = true;
	tap_open(1, 0);
	fd = tap_packet_socket();
	for (unsigned int i = 0; i < 300; i++) {
		tap_number_frame(i);
		tap_host_sends(fd, 1514);
	}
	usleep(50000);
	before = port_frames(&port, 0);
	CHECK(before > 0 && before < 64);
	port_release(&port, 0);
	CHECK(port_wait(&port, 0, 300, 10 * SECONDS));
	close(fd);
	tap_finish();
}

/* The kernel's driver takes no large frames: small ones do not wait for the room of a large one. */
static void test_small_frames(void)
{
	unsigned int next = 0;
	int fd;

	/* No such ring has room for the largest frame of a segmentation offload. */
	port_init(&port, 40, 1536, tap_check_numbers, &next);
	port.frame_most = HEADER + 18 + 1500;
	tap_open(1, 0);
	fd = tap_packet_socket();
	for (unsigned int i = 0; i < 100; i++) {
		tap_number_frame(i);
		tap_host_sends(fd, 1514);
	}
	CHECK(port_wait(&port, 0, 100, 10 * SECONDS));
	CHECK_EQUAL(port.waits, 0);
	close(fd);
	tap_finish();
}

/* The ring never has room for the largest frame. What does not fit is dropped, not cut. */
static void test_small_ring(void)
{
	int fd;

	port_init(&port, 2, 1536, tap_keep_last, NULL);
	tap_open(1, SEGMENTS);
	fd = tap_packet_socket();
	make_segment(1000);
	tap_host_sends(fd, TCP_HEADERS + 1000);
	CHECK(port_wait(&port, 0, 1, 10 * SECONDS));
	make_segment(10000);
	tap_host_sends(fd, TCP_HEADERS + 10000);
	make_segment(2900);
	tap_host_sends(fd, TCP_HEADERS + 2900);
	CHECK(port_wait(&port, 0, 2, 10 * SECONDS));
	CHECK_EQUAL(last_length, HEADER + TCP_HEADERS + 2900);
	close(fd);
	tap_finish();
}

static void test_close_while_waiting(void)
{
	int fd;

	tap_setup(0);
	port.hold = true;
	fd = tap_packet_socket();
	for (unsigned int i = 0; i < 300; i++) {
		tap_number_frame(i);
		tap_host_sends(fd, 1514);
	}
	CHECK(port_wait(&port, 0, 200, 10 * SECONDS));
	close(fd);
	tap_finish();
}

/* ---- queues ----------------------------------------------------------------- */

/* UDP from us to the host with the given port, or the answer to it. */
static void make_datagram(uint16_t client, bool answer)
{
	unsigned char *ip = frame + HEADER + 14, *udp = ip + 20;

	tap_make_frame(142, (unsigned char)client);
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
	tap_transmit(queue, 142);
	make_datagram(client, true);
	first = port_frames(&port, 0);
	tap_host_sends(fd, 142);
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

	port_init(&port, 256, 1536, tap_keep_last, NULL);
	tap_open(2, 0);
	CHECK_EQUAL(tap->queues, 2);
	fd = tap_packet_socket();
	expect_answer(fd, 0, 5000, 0);
	for (int round = 0; round < 3; round++) {
		CHECK_EQUAL(tap->operations->set_queues(tap, 2), 0);
		expect_answer(fd, 1, (uint16_t)(6000 + round), 1);
		expect_answer(fd, 0, (uint16_t)(7000 + round), 0);
		CHECK_EQUAL(tap->operations->set_queues(tap, 1), 0);
		expect_answer(fd, 0, (uint16_t)(6000 + round), 0);
	}
	close(fd);
	tap_finish();
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

static void test_deleted(void)
{
	tap_setup(0);
	CHECK_EQUAL(system("ip link del " NAME), 0);
	wait_for_sleep();
	tap_make_frame(100, 0);
	CHECK(tap->operations->transmit(tap, 0, &(struct iovec){ frame, 112 }, 1) < 0);
	tap_finish();
}

static void test_fork(void)
{
	pid_t child;
	int fd, status;

	tap_setup(0);
	fd = tap_packet_socket();
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		/* Only what belongs to the tap was closed. */
		int before = dup(0);

		ob_fork_owners_close();
		tap->operations->forked(tap);
		CHECK(dup(0) <= before);
		_exit(0);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	tap_make_frame(500, 9);
	tap_host_sends(fd, 500);
	CHECK(port_wait(&port, 0, 1, 10 * SECONDS));
	close(fd);
	tap_finish();
}

static const struct tap_test tests[] = {
	{ "frames", test_frames },
	{ "segments", test_segments },
	{ "no-room", test_no_room },
	{ "small-frames", test_small_frames },
	{ "small-ring", test_small_ring },
	{ "close-while-waiting", test_close_while_waiting },
	{ "queues", test_queues },
	{ "deleted", test_deleted },
	{ "fork", test_fork },
	{ 0 },
};

int main(int count, char **names)
{
	return tap_run_tests(tests, count, names);
}
