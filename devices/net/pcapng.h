/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Formats of capture files: pcapng, and the older pcap for reading. A pcapng file is a list of
 * blocks: type, total length, contents, total length again. Contents end in options: code, length,
 * value. All is padded to 4 bytes, and in the byte order of the section's writer.
 */
#ifndef OUTBOARD_DEVICES_NET_PCAPNG_H
#define OUTBOARD_DEVICES_NET_PCAPNG_H

#include <stdint.h>

#include "raw.h"

enum {
	PCAPNG_SECTION = 0x0a0d0d0a,
	PCAPNG_INTERFACE = 1,
	PCAPNG_SIMPLE_PACKET = 3,
	PCAPNG_STATISTICS = 5,
	PCAPNG_PACKET = 6,
};

#define PCAPNG_ORDER 0x1a2b3c4du

/* A block without contents. */
#define PCAPNG_BLOCK_LEAST 12u

enum {
	OPTION_END = 0,
	/* of a section */
	OPTION_APPLICATION = 4,
	/* of an interface */
	OPTION_NAME = 2,
	OPTION_RESOLUTION = 9,
	/* of a packet */
	OPTION_FLAGS = 2,
	/* of statistics */
	OPTION_START = 2,
	OPTION_END_TIME = 3,
	OPTION_RECEIVED = 4,
	OPTION_OS_DROPPED = 7,
};

/* The direction in the flags of a packet. */
enum {
	FLAGS_DIRECTION = 3,
	FLAGS_INBOUND = 1,
	FLAGS_OUTBOUND = 2,
};

#define LINK_ETHERNET 1

/* The older format: a header, and a record for each packet. */
#define PCAP_MAGIC_USEC 0xa1b2c3d4u
#define PCAP_MAGIC_NSEC 0xa1b23c4du
#define PCAP_HEADER_BYTES 24u
#define PCAP_RECORD_BYTES 16u

/* As fcntl(): locks a file for this open of it, unless another open has a lock that excludes it. */
static inline int ob_pcap_lock(int fd, short type)
{
	struct flock lock = { .l_type = type, .l_whence = SEEK_SET };

	return raw_fcntl(fd, F_OFD_SETLK, (long)&lock);
}

#endif
