/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes the blocks of a pcapng file with one Ethernet interface: what pcap.c asks of it. */
#ifndef OUTBOARD_DEVICES_NET_PCAP_WRITE_H
#define OUTBOARD_DEVICES_NET_PCAP_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ob_pcap_writer {
	int fd;				/* -1: not open */
	bool is_file;			/* a regular one: no waiting, and the end can be cut off */
	int error;			/* of the host, negative; nothing is written any more */
	uint64_t written;		/* where the next whole block begins in the file */
	/* Blocks that are not written yet. */
	unsigned char *bytes;
	size_t filled;
};

/*
 * Opens "fd:N", a FIFO that has a reader, or a file, which is created or overwritten. The host's
 * error; -EBUSY: another user has locked the file.
 */
int ob_pcap_writer_open(struct ob_pcap_writer *writer, const char *path);
/* Closes the file, and frees the memory. Stores the host's error. */
void ob_pcap_writer_close(struct ob_pcap_writer *writer);
/* Frees the memory only: in a fork()ed child. */
void ob_pcap_writer_free(struct ob_pcap_writer *writer);

/* The first two blocks. */
void ob_pcap_write_head(struct ob_pcap_writer *writer, const char *interface);

/*
 * Begins the block of a frame. Returns where its `length` bytes, at most OB_NET_ETHERNET_MOST, are
 * to be stored before the next call. Times are in nanoseconds since 1970.
 */
unsigned char *ob_pcap_write_frame(struct ob_pcap_writer *writer, uint64_t time, bool outbound,
				   size_t length);

/* The last block. */
void ob_pcap_write_statistics(struct ob_pcap_writer *writer, uint64_t begin, uint64_t end,
			      uint64_t seen, uint64_t dropped);

/*
 * Hands all whole blocks to the host. Blocks while a FIFO is full, until *is_ending (atomic) has
 * been true for a second. Then the rest is lost, and the error is -ETIMEDOUT.
 */
void ob_pcap_write_out(struct ob_pcap_writer *writer, const bool *is_ending);

/* The rest of the buffer is too small for another frame: write it out. */
bool ob_pcap_writer_is_full(const struct ob_pcap_writer *writer);

#endif
