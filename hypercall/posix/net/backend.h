/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Network interfaces: the border between the virtio network device and its back-ends.
 *
 *   device.c	the virtio network device: queues of the kernel's driver, features, MAC address
 *   tap.c	a tap interface of the host
 *   hub.c	an Ethernet segment in shared memory
 *   user.c	rootless NAT, by passt or libslirp
 *   pcap.c	writes the frames that pass into a file, in front of any other back-end
 *
 * Frames: in both directions a frame begins with OB_NET_HEADER_BYTES bytes, struct
 * virtio_net_hdr_v1 of <linux/virtio_net.h>. A back-end that offers no offloads gets a header of
 * zeroes, and passes one of zeroes. The device itself sets the member num_buffers. The Ethernet
 * header follows; there is no frame check sequence.
 *
 * Threads:
 *  - transmit() and transmit_end() run on the thread of a client that holds a vCPU (V7). They never
 *    block, allocate nothing from the heap, take no lock that a signal handler may interrupt the
 *    holder of, and use raw.h for calls of the host. Calls for one queue never overlap; calls for
 *    two queues may.
 *  - A back-end receives on threads of its own, one for each queue or one for all. These threads
 *    come from ob_host_thread_create(). They may block in the back-end's own waiting, and in
 *    ob_net_receive_wait().
 *  - open(), close() and forked() run without a vCPU, and may block.
 */
#ifndef OUTBOARD_POSIX_NET_BACKEND_H
#define OUTBOARD_POSIX_NET_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <outboard/platform.h>

#define OB_NET_HEADER_BYTES 12u

/* Header, Ethernet header with a VLAN tag, and the largest packet of a segmentation offload. */
#define OB_NET_FRAME_MOST (OB_NET_HEADER_BYTES + 18u + 65535u)

/* A frame may be in so many pieces at most: 64 KB in pages, and the header. */
#define OB_NET_PIECES_MOST 64

#define OB_NET_QUEUES_MOST 16

struct ob_net_backend;
struct ob_net_port;		/* the device, as a back-end sees it */

struct ob_net_backend_operations {
	/*
	 * Sends one frame. The pieces are memory of the kernel, valid until this returns. 0: sent,
	 * or dropped as a network drops frames. Errors are counted, and the frame is dropped.
	 */
	int (*transmit)(struct ob_net_backend *backend, unsigned int queue,
			const struct iovec *pieces, int count);
	/* After the last frame of a batch: wakes whoever receives. May be NULL. */
	void (*transmit_end)(struct ob_net_backend *backend, unsigned int queue);
	/*
	 * Starts to receive, once, after open(). `features`: bits VIRTIO_NET_F_* that the kernel's
	 * driver has accepted, a subset of `offloads`. The kernel may start again with other
	 * features, after a reset. 0 or the host's error. Never blocks: it runs with a vCPU held.
	 */
	int (*set_features)(struct ob_net_backend *backend, uint64_t features);
	/*
	 * The kernel uses the first `count` queue pairs only, as it does with one at first. May be
	 * NULL. Never blocks.
	 */
	int (*set_queues)(struct ob_net_backend *backend, unsigned int count);
	/* Ends all threads of the back-end, closes its descriptors, frees it. */
	void (*close)(struct ob_net_backend *backend);
	/*
	 * In a fork()ed child, instead of close(): closes the descriptors and frees the back-end.
	 * Its threads are the parent's.
	 */
	void (*forked)(struct ob_net_backend *backend);
};

/* What a back-end is. It embeds this as its first member. */
struct ob_net_backend {
	const struct ob_net_backend_operations *operations;
	/* Bits 1ULL << VIRTIO_NET_F_* for checksums and segmentation in both directions. */
	uint64_t offloads;
	/* Largest packet without the Ethernet header; 0: the kernel chooses 1500. */
	uint32_t mtu;
	/* Queue pairs, 1 to OB_NET_QUEUES_MOST. */
	uint32_t queues;
};

/* What the program asks for: outboard/platform.h has the strings' grammar. */
struct ob_net_request {
	const char *target;		/* after the colon, as "tap0" in "tap:tap0"; "" if none */
	uint32_t mtu;			/* 0: not given */
	uint32_t queues;		/* 0: not given */
	const char *forwards;		/* user: as in "8080:80,udp:53:5353"; NULL: none */
};

/*
 * Opens a back-end. Stores it, ready: its threads may receive at once. On failure: -errno, and
 * `error` has one line that names the interface, what the host refused, and what to do.
 */
typedef int ob_net_open(struct ob_host *host, struct ob_net_port *port,
			const struct ob_net_request *request, struct ob_net_backend **backend,
			char *error, size_t error_size);
ob_net_open ob_net_tap_open;
ob_net_open ob_net_hub_open;
ob_net_open ob_net_user_open;

/* ---- the device: for the threads of a back-end ---------------------------- */

/*
 * Gives out the kernel's next buffers for one frame: at least `size` bytes in all, header included,
 * or the rest of what there is if `size` is OB_NET_FRAME_MOST. Stores the pieces, and returns their
 * number. 0: the kernel has no room for such a frame now; the caller waits, or drops the frame.
 * After a result that is not 0 the caller soon calls ob_net_receive_end(), and does not block in
 * between. One thread at a time for each queue.
 */
int ob_net_receive_begin(struct ob_net_port *port, unsigned int queue, size_t size,
			 struct iovec pieces[OB_NET_PIECES_MOST]);

/* The pieces contain a frame of `length` bytes with its header. 0: they contain nothing. */
void ob_net_receive_end(struct ob_net_port *port, unsigned int queue, size_t length);

/*
 * Interrupts the kernel if frames have come since the last call. At the end of a batch, at the
 * latest before the thread blocks.
 */
void ob_net_receive_flush(struct ob_net_port *port, unsigned int queue);

/*
 * Copies one frame to the kernel: begin, copy, end. 0, or -ENOBUFS: the kernel has no room.
 */
int ob_net_receive(struct ob_net_port *port, unsigned int queue, const struct iovec *pieces,
		   int count);

/*
 * Blocks until the kernel may have room for a frame of `size` bytes in the queue, or as much as its
 * ring ever has. False: the interface is being closed, and the thread should end.
 */
bool ob_net_receive_wait(struct ob_net_port *port, unsigned int queue, size_t size);

/* close() calls this first: ob_net_receive_wait() returns false from now on, in all threads. */
void ob_net_port_stop(struct ob_net_port *port);

#endif
