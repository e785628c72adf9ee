/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The common part of the tests of the tap back-end: a tap in a network namespace of its own. The
 * other end of the tap is a packet socket of the host. Links with net_tap_bed.c, and the files
 * that net_port.h names.
 */
#ifndef OUTBOARD_TESTS_NET_TAP_BED_H
#define OUTBOARD_TESTS_NET_TAP_BED_H

#include <linux/virtio_net.h>

#include "net_port.h"

#define NAME "outboard0"
#define HEADER OB_NET_HEADER_BYTES
#define FEATURE(name) (1ULL << VIRTIO_NET_F_##name)
#define SEGMENTS (FEATURE(GUEST_CSUM) | FEATURE(GUEST_TSO4) | FEATURE(GUEST_TSO6))
#define SECONDS 1000

extern struct ob_net_port port;
extern struct ob_net_backend *tap;
/* Why tap_try_open() failed. */
extern char tap_error[256];
/* The frame to send, and the last frame that tap_keep_last() received; with their headers. */
extern unsigned char frame[OB_NET_FRAME_MOST], last[OB_NET_FRAME_MOST];
extern size_t last_length;

/* For port_init(): keeps the frame; or checks that frames of tap_number_frame() come in turn. */
port_frame tap_keep_last, tap_check_numbers;

/* Opens `tap` for `port`. 0 or -errno. */
int tap_try_open(const char *target, unsigned int queues);
/* Brings an interface of the host up. */
void tap_set_up(const char *name, int mtu);
/* A thread of the back-end sets the offloads: waits until the host has them. */
void tap_set_features(uint64_t features);
/* Opens the tap NAME and brings it up; the same with a port that keeps the last frame. */
void tap_open(unsigned int queues, uint64_t features);
void tap_setup(uint64_t features);
/* Closes the tap, and checks that no thread is left. */
void tap_finish(void);

/* The host's end of the interface. Its frames have virtio headers of 10 bytes. */
int tap_packet_socket(void);
/* Fills in `frame`: `size` bytes from the Ethernet header on. */
void tap_make_frame(size_t size, unsigned char seed);
/* The same with a number for tap_check_numbers(): 1514 bytes. */
void tap_number_frame(unsigned int number);
/* Sends `frame` from the host into the tap. */
void tap_host_sends(int fd, size_t size);
/* Sends `frame` from the kernel's side. */
void tap_transmit(unsigned int queue, size_t size);
/* Returns the length of the next frame of ours that the host gets, without its virtio header. */
long tap_host_receives(int fd, unsigned char *bytes);

/* A list of tests ends with one without a name. */
struct tap_test {
	const char *name;
	void (*run)(void);
};

/*
 * Runs the named tests, or all if count is 1. Each has a process and a network namespace of its
 * own. Returns 0, or ends the program.
 */
int tap_run_tests(const struct tap_test *tests, int count, char **names);

#endif
