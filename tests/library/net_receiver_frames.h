/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames of a segmentation offload or with a checksum that is not finished, as an honest sender
 * makes them; and a check of what a receiver without these offloads gets, by code of its own.
 */
#ifndef OUTBOARD_TESTS_NET_RECEIVER_FRAMES_H
#define OUTBOARD_TESTS_NET_RECEIVER_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/backend.h"

struct frame {
	struct virtio_net_hdr_v1 header;
	unsigned char bytes[OB_NET_FRAME_MOST - OB_NET_HEADER_BYTES + 64];
	size_t length;			/* of `bytes` */
	size_t network, transport, payload;
	bool is_ip6, is_tcp;
};

uint32_t pick(uint32_t below);

void frame_make(struct frame *frame);
/* Changes what the frame or its header says. */
void frame_make_lie(struct frame *frame);

/* Received so far of one frame that was sent. */
struct received {
	const struct frame *sent;
	unsigned int frames;
	size_t payload;
};

/* One frame without any offload, after those that came before. */
void frame_check_part(struct received *received, const unsigned char *bytes, size_t length);
void frame_check_all(const struct received *received);

#endif
