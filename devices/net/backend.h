/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Network interfaces: the border between the virtio network device and its back-ends.
 *
 *   device.c	the virtio network device: queues of the kernel's driver, features, MAC address
 *   tap.c	a tap interface of the host
 *   hub.c	an Ethernet segment in shared memory
 *   user.c	rootless NAT, by passt or libslirp
 *   stream.h	frames on a socket; nat_serve.c is a NAT at its other end
 *   replay.c	frames of a capture file
 *   pcap.c	writes the frames that pass into a file, in front of any other back-end
 *   segment.c	cuts frames for a receiver that takes no large ones, and finishes checksums
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
#ifndef OUTBOARD_DEVICES_NET_BACKEND_H
#define OUTBOARD_DEVICES_NET_BACKEND_H

#include <linux/virtio_net.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <outboard/platform_host.h>

#define OB_NET_HEADER_BYTES 12u

/* Header, Ethernet header with a VLAN tag, and the largest packet of a segmentation offload. */
#define OB_NET_FRAME_MOST (OB_NET_HEADER_BYTES + 18u + 65535u)

/* A frame may be in so many pieces at most: 64 KB in pages, and the header. */
#define OB_NET_PIECES_MOST 64

#define OB_NET_QUEUES_MOST 16

/* The host's headers may be older than Linux 6.2. */
#ifndef VIRTIO_NET_F_HOST_USO
#define VIRTIO_NET_F_GUEST_USO4 54
#define VIRTIO_NET_F_GUEST_USO6 55
#define VIRTIO_NET_F_HOST_USO 56
#endif
#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

struct ob_net_backend;
struct ob_net_port;		/* the device, as a back-end sees it */

struct ob_net_backend_operations {
	/*
	 * Sends one frame. The pieces are memory of the kernel, valid until this returns. 0: sent,
	 * or dropped as a network drops frames. After an error the frame is dropped, too.
	 */
	int (*transmit)(struct ob_net_backend *backend, unsigned int queue,
			const struct iovec *pieces, int count);
	/* After the last frame of a batch: wakes the receiver. May be NULL. */
	void (*transmit_end)(struct ob_net_backend *backend, unsigned int queue);
	/*
	 * The kernel's driver has accepted these bits VIRTIO_NET_F_*, a subset of `offloads`, and
	 * receives from now on. The kernel may start again with other features, after a reset. May
	 * be NULL. 0 or the host's error. Never blocks: it runs with a vCPU held.
	 */
	int (*set_features)(struct ob_net_backend *backend, uint64_t features);
	/*
	 * The kernel uses the first `count` queue pairs only, as it does with one at first. May be
	 * NULL. Never blocks.
	 */
	int (*set_queues)(struct ob_net_backend *backend, unsigned int count);
	/*
	 * Looks once for frames, on a thread that waits for the kernel, in the place of the
	 * back-end's own thread. `is_last`: the back-end's thread looks from now on. The rules are
	 * those of transmit(); calls never overlap. May be NULL.
	 */
	void (*poll)(struct ob_net_backend *backend, bool is_last);
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

/* The interface that the program asks for: outboard/platform_host.h has the strings' grammar. */
struct ob_net_request {
	const char *target;		/* after the colon, as "tap0" in "tap:tap0"; "" if none */
	uint32_t mtu;			/* 0: not given */
	uint32_t queues;		/* 0: not given */
	const char *forwards;		/* user: as in "8080:80,udp:53:5353"; NULL: none */
	/* hub: a socket of the process that opens files (hub_open.c); NULL: this one opens them */
	const int *opener;
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
ob_net_open ob_net_replay_open;
ob_net_open ob_net_stream_open;

/* ---- capture: pcap.c ------------------------------------------------------- */

struct ob_net_capture;

/* Writes frames into a file as pcapng, by a thread of its own. `interface`: its name there. */
int ob_net_pcap_open(struct ob_host *host, const char *path, const char *interface,
		     struct ob_net_capture **capture, char *error, size_t error_size);
/* A frame of `length` bytes has passed, with its header. Never blocks; any thread. */
void ob_net_pcap_frame(struct ob_net_capture *capture, bool outbound, const struct iovec *pieces,
		       int count, size_t length);
void ob_net_pcap_close(struct ob_net_capture *capture);
/* In a fork()ed child, instead of close(). */
void ob_net_pcap_forked(struct ob_net_capture *capture);

/* ---- the device: for the threads of a back-end ---------------------------- */

/*
 * Gives out the kernel's next buffers for one frame: at least `size` bytes in all, header included,
 * or as much as the largest frame that the driver takes. Stores the pieces in the caller's array,
 * which stays until ob_net_receive_end(), and returns their number. 0: the kernel has no room for
 * such a frame now; the caller waits, or drops the frame. After a result that is not 0 the caller
 * soon calls ob_net_receive_end(), and does not block in between. One thread at a time for each
 * queue.
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

/* Bytes of the largest frame that the driver takes, with its header. */
size_t ob_net_frame_most(const struct ob_net_port *port);

/*
 * Copies one frame to the kernel. 0, or -ENOBUFS: the kernel has no room. A receiver that did not
 * accept what the frame needs gets it in several frames, or with a finished checksum. A frame that
 * it cannot get at all is dropped and counted.
 */
int ob_net_receive(struct ob_net_port *port, unsigned int queue, const struct iovec *pieces,
		   int count);

/*
 * Delivers what is left of a frame that ob_net_receive() has cut. 0: nothing was. 1: that was all.
 * -ENOBUFS: the kernel has no room for the next one. ob_net_receive() does the same first.
 */
int ob_net_receive_rest(struct ob_net_port *port, unsigned int queue);

/*
 * After an -ENOBUFS of the functions above: the room that they lack, for ob_net_receive_wait(). Of
 * a frame that was cut they lack room for the next part only.
 */
size_t ob_net_receive_lacks(struct ob_net_port *port, unsigned int queue);

/*
 * Blocks until the kernel may have room for a frame of `size` bytes in the queue. False: the
 * interface is being closed, and the thread should end.
 */
bool ob_net_receive_wait(struct ob_net_port *port, unsigned int queue, size_t size);

/* The link goes down or comes up, as when a cable is pulled. Any thread. Does not block. */
void ob_net_port_link(struct ob_net_port *port, bool is_up);

/* close() calls this first: ob_net_receive_wait() returns false from now on, in all threads. */
void ob_net_port_stop(struct ob_net_port *port);

#endif
