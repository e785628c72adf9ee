/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frames for a receiver that has not accepted what they ask for (virtio specification 1.2, section
 * 5.1.6.4): segmentation and checksums by software.
 *
 * A frame comes from a stranger, as its header does: every length is checked.
 */
#ifndef OUTBOARD_DEVICES_NET_SEGMENT_H
#define OUTBOARD_DEVICES_NET_SEGMENT_H

#include "backend.h"

/*
 * Whether a receiver that has accepted `features` takes a frame with that header. `length`: of the
 * frame with the header. Changes the header to one that says nothing else.
 */
bool ob_net_header_fits(uint64_t features, struct virtio_net_hdr_v1 *header, size_t length);

/* Where the headers of a frame begin, and its payload. */
struct ob_net_layout {
	size_t network, transport, payload;
	bool is_ip6;
	uint8_t protocol;
};

/* One frame that is cut into several, with finished checksums. Zeroes: none. */
struct ob_net_segments {
	struct virtio_net_hdr_v1 header;	/* of each of the frames: zeroes */
	bool is_cut;				/* else it only gets a finished checksum */
	struct ob_net_layout layout;		/* of a frame that is cut */
	size_t length;				/* of the whole frame, without a header */
	size_t next;				/* where the next frame's payload begins */
	size_t size;				/* of a frame's payload; the last may have less */
	uint32_t number;			/* of the next frame */
	/* What each frame has from the whole frame's headers. */
	uint32_t sequence;
	uint16_t identification;
	uint8_t flags;
	_Alignas(8) unsigned char bytes[OB_NET_FRAME_MOST - OB_NET_HEADER_BYTES];
};

/*
 * Takes a copy of a frame with its header. False: no receiver can get it without an offload, or the
 * header says what is not so. Then there are no segments.
 */
bool ob_net_segments_begin(struct ob_net_segments *segments, const struct iovec *pieces, int count);

/* Is there a frame left? */
bool ob_net_segments_left(const struct ob_net_segments *segments);

#define OB_NET_SEGMENT_PIECES 3

/* Makes the next frame. The pieces are valid until the next call. */
void ob_net_segments_get(struct ob_net_segments *segments,
			 struct iovec pieces[OB_NET_SEGMENT_PIECES]);
void ob_net_segments_advance(struct ob_net_segments *segments);
void ob_net_segments_drop(struct ob_net_segments *segments);

#endif
