/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Reads capture files: pcapng, and the older pcap. Nothing in the file is trusted: all lengths are
 * checked, and the memory is bounded.
 */
#ifndef OUTBOARD_DEVICES_NET_PCAP_READ_H
#define OUTBOARD_DEVICES_NET_PCAP_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More interfaces in one section are an error. */
#define OB_PCAP_INTERFACES_MOST 256

struct ob_pcap_interface {
	bool is_ethernet;
	uint8_t resolution;	/* if_tsresol of pcapng */
};

struct ob_pcap_reader {
	int fd;
	uint64_t size;
	uint64_t at;			/* of the next block or record */
	bool is_old;			/* pcap */
	bool is_swapped;		/* the file has the other byte order */
	uint32_t count;			/* of interfaces; 1 in pcap */
	struct ob_pcap_interface interfaces[OB_PCAP_INTERFACES_MOST];
	uint64_t skipped;		/* packets that are no frames for a kernel */
	const char *problem;		/* why the file cannot be read on; NULL: it can */
	/* A part of the file. */
	unsigned char *window;
	uint64_t window_at;
	size_t window_size;
};

struct ob_pcap_frame {
	const unsigned char *bytes;	/* valid until the next call */
	size_t length;
	bool has_time;
	uint64_t time;			/* in nanoseconds */
};

/*
 * Opens a regular file, and reads its header. The host's error, or -EINVAL: `problem` says what is
 * wrong.
 */
int ob_pcap_reader_open(struct ob_pcap_reader *reader, const char *path);
void ob_pcap_reader_close(struct ob_pcap_reader *reader);

/*
 * Finds the next whole Ethernet frame that is not marked as outbound. False: the file has ended, or
 * has a problem.
 */
bool ob_pcap_read(struct ob_pcap_reader *reader, struct ob_pcap_frame *frame);

#endif
