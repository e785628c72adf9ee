// SPDX-License-Identifier: GPL-2.0-only
/* Reads capture files: pcapng, and the older pcap. */
#define _GNU_SOURCE
#include <byteswap.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "deliver.h"
#include "pcap_read.h"
#include "pcapng.h"
#include "raw.h"

/* The part of the file that is in memory. No block that is looked into is longer. */
#define WINDOW_BYTES (1ul << 20)

#define NSEC_PER_SEC 1000000000ull

static bool fail(struct ob_pcap_reader *reader, const char *problem)
{
	reader->problem = problem;
	return false;
}

/* ---- bytes of the file ---------------------------------------------------- */

/* Moves the window to a part of the file. False: it cannot be read. */
static bool move_window(struct ob_pcap_reader *reader, uint64_t at, size_t size)
{
	size_t filled = 0;

	reader->window_at = at;
	reader->window_size = 0;
	while (filled < size) {
		ssize_t count = raw_pread(reader->fd, reader->window + filled,
					  WINDOW_BYTES - filled, (off_t)(at + filled));

		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0)
			return fail(reader, count ? "it cannot be read" : "it shrinks");
		filled += (size_t)count;
	}
	reader->window_size = filled;
	return true;
}

/* Returns bytes of the file, or NULL. `size` is at most WINDOW_BYTES. */
static const unsigned char *fetch(struct ob_pcap_reader *reader, uint64_t at, size_t size)
{
	if (at > reader->size || size > reader->size - at) {
		fail(reader, "it ends in the middle of a block");
		return NULL;
	}
	if (at < reader->window_at || at - reader->window_at > reader->window_size ||
	    size > reader->window_size - (at - reader->window_at))
		if (!move_window(reader, at, size))
			return NULL;
	return reader->window + (at - reader->window_at);
}

static uint32_t get32(const struct ob_pcap_reader *reader, const unsigned char *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return reader->is_swapped ? bswap_32(value) : value;
}

static uint16_t get16(const struct ob_pcap_reader *reader, const unsigned char *bytes)
{
	uint16_t value;

	memcpy(&value, bytes, sizeof(value));
	return reader->is_swapped ? bswap_16(value) : value;
}

/* ---- frames --------------------------------------------------------------- */

/* Is this a whole frame that the kernel can receive? Counts those that are not. */
static bool is_frame(struct ob_pcap_reader *reader, uint32_t captured, uint32_t length)
{
	if (captured == length && length >= OB_NET_ETHERNET_BYTES && length <= OB_NET_ETHERNET_MOST)
		return true;
	reader->skipped++;
	return false;
}

/* if_tsresol: a negative power of 10, or of 2 with the upper bit set. */
static uint64_t to_nanoseconds(uint64_t time, uint8_t resolution)
{
	unsigned __int128 value = (unsigned __int128)time * NSEC_PER_SEC;
	unsigned int power = resolution & 0x7f;

	if (resolution & 0x80)
		return power < 128 ? (uint64_t)(value >> power) : 0;
	while (value && power--)
		value /= 10;
	return (uint64_t)value;
}

/* ---- pcapng --------------------------------------------------------------- */

/* A block whose length has been checked. */
struct block {
	uint32_t type;
	uint64_t contents;	/* where they are in the file */
	uint64_t size;		/* of the contents */
};

/* Sets the byte order, which counts for the length of this block too. */
static bool begin_section(struct ob_pcap_reader *reader, uint64_t at)
{
	const unsigned char *bytes = fetch(reader, at, PCAPNG_BLOCK_LEAST);
	uint32_t order;

	if (!bytes)
		return false;
	memcpy(&order, bytes + 8, sizeof(order));
	if (order != PCAPNG_ORDER && order != bswap_32(PCAPNG_ORDER))
		return fail(reader, "a section has no byte order");
	reader->is_swapped = order != PCAPNG_ORDER;
	reader->count = 0;
	return true;
}

static bool next_block(struct ob_pcap_reader *reader, struct block *block)
{
	const unsigned char *bytes = fetch(reader, reader->at, PCAPNG_BLOCK_LEAST);
	uint32_t length;

	if (!bytes)
		return false;
	block->type = get32(reader, bytes);
	if (block->type == PCAPNG_SECTION) {
		if (!begin_section(reader, reader->at))
			return false;
		bytes = fetch(reader, reader->at, PCAPNG_BLOCK_LEAST);
		if (!bytes)
			return false;
	}
	length = get32(reader, bytes + 4);
	if (length < PCAPNG_BLOCK_LEAST || length % 4)
		return fail(reader, "a block has a wrong length");
	bytes = fetch(reader, reader->at + length - 4, 4);
	if (!bytes)
		return false;
	if (get32(reader, bytes) != length)
		return fail(reader, "the two lengths of a block differ");
	block->contents = reader->at + 8;
	block->size = length - PCAPNG_BLOCK_LEAST;
	reader->at += length;
	return true;
}

/* Finds an option. Returns its value if it has that length, else NULL. */
static const unsigned char *find_option(const struct ob_pcap_reader *reader,
					const unsigned char *options, size_t size, uint16_t code,
					uint16_t length)
{
	while (size >= 4) {
		uint16_t this_code = get16(reader, options);
		uint16_t this_length = get16(reader, options + 2);
		size_t whole = 4 + ((this_length + 3u) & ~3u);

		if (this_code == OPTION_END || whole > size)
			return NULL;
		if (this_code == code)
			return this_length == length ? options + 4 : NULL;
		options += whole;
		size -= whole;
	}
	return NULL;
}

/* Fetches the contents of a block that must have at least `least` bytes. */
static const unsigned char *contents(struct ob_pcap_reader *reader, const struct block *block,
				     size_t least)
{
	if (block->size < least || block->size > WINDOW_BYTES) {
		fail(reader, "a block is too short or too long");
		return NULL;
	}
	return fetch(reader, block->contents, block->size);
}

#define INTERFACE_BYTES 8u

static bool add_interface(struct ob_pcap_reader *reader, const struct block *block)
{
	const unsigned char *bytes = contents(reader, block, INTERFACE_BYTES);
	const unsigned char *resolution;

	if (!bytes)
		return false;
	if (reader->count == OB_PCAP_INTERFACES_MOST)
		return fail(reader, "it has too many interfaces");
	resolution = find_option(reader, bytes + INTERFACE_BYTES, block->size - INTERFACE_BYTES,
				 OPTION_RESOLUTION, 1);
	reader->interfaces[reader->count++] = (struct ob_pcap_interface){
		.is_ethernet = get16(reader, bytes) == LINK_ETHERNET,
		.resolution = resolution ? *resolution : 6,
	};
	return true;
}

#define PACKET_BYTES 20u

/* True: the block has a frame to deliver. */
static bool read_packet(struct ob_pcap_reader *reader, const struct block *block,
			struct ob_pcap_frame *frame)
{
	const unsigned char *bytes = contents(reader, block, PACKET_BYTES);
	const unsigned char *flags;
	uint32_t interface, captured;
	size_t padded;

	if (!bytes)
		return false;
	interface = get32(reader, bytes);
	captured = get32(reader, bytes + 12);
	padded = ((size_t)captured + 3) & ~(size_t)3;
	if (interface >= reader->count)
		return fail(reader, "a packet is of an interface that was not described");
	if (padded > block->size - PACKET_BYTES)
		return fail(reader, "a packet is longer than its block");
	if (!reader->interfaces[interface].is_ethernet) {
		reader->skipped++;
		return false;
	}
	if (!is_frame(reader, captured, get32(reader, bytes + 16)))
		return false;
	flags = find_option(reader, bytes + PACKET_BYTES + padded,
			    block->size - PACKET_BYTES - padded, OPTION_FLAGS, 4);
	if (flags && (get32(reader, flags) & FLAGS_DIRECTION) == FLAGS_OUTBOUND)
		return false;
	frame->bytes = bytes + PACKET_BYTES;
	frame->length = captured;
	frame->has_time = true;
	frame->time = to_nanoseconds((uint64_t)get32(reader, bytes + 4) << 32 |
				     get32(reader, bytes + 8),
				     reader->interfaces[interface].resolution);
	return true;
}

/* Of the first interface, without a time. */
static bool read_simple_packet(struct ob_pcap_reader *reader, const struct block *block,
			       struct ob_pcap_frame *frame)
{
	const unsigned char *bytes = contents(reader, block, 4);
	uint32_t length;

	if (!bytes)
		return false;
	if (!reader->count)
		return fail(reader, "a packet is of an interface that was not described");
	length = get32(reader, bytes);
	if (!reader->interfaces[0].is_ethernet || length > block->size - 4) {
		reader->skipped++;
		return false;
	}
	if (!is_frame(reader, length, length))
		return false;
	*frame = (struct ob_pcap_frame){ .bytes = bytes + 4, .length = length };
	return true;
}

static bool read_block(struct ob_pcap_reader *reader, struct ob_pcap_frame *frame)
{
	struct block block;

	if (!next_block(reader, &block))
		return false;
	switch (block.type) {
	case PCAPNG_INTERFACE:
		add_interface(reader, &block);
		return false;
	case PCAPNG_PACKET:
		return read_packet(reader, &block, frame);
	case PCAPNG_SIMPLE_PACKET:
		return read_simple_packet(reader, &block, frame);
	default:
		return false;
	}
}

/* ---- pcap ----------------------------------------------------------------- */

static bool read_record(struct ob_pcap_reader *reader, struct ob_pcap_frame *frame)
{
	const unsigned char *bytes = fetch(reader, reader->at, PCAP_RECORD_BYTES);
	uint32_t seconds, fraction, captured, length;

	if (!bytes)
		return false;
	seconds = get32(reader, bytes);
	fraction = get32(reader, bytes + 4);
	captured = get32(reader, bytes + 8);
	length = get32(reader, bytes + 12);
	reader->at += PCAP_RECORD_BYTES;
	if (captured > reader->size - reader->at)
		return fail(reader, "it ends in the middle of a packet");
	reader->at += captured;
	if (!is_frame(reader, captured, length))
		return false;
	frame->bytes = fetch(reader, reader->at - captured, captured);
	frame->length = captured;
	frame->has_time = true;
	frame->time = seconds * NSEC_PER_SEC +
		      (reader->interfaces[0].resolution == 9 ? fraction : fraction * 1000ull);
	return frame->bytes;
}

/* Returns the resolution, as if_tsresol, or 0. */
static uint8_t resolution_of(uint32_t magic)
{
	if (magic == PCAP_MAGIC_USEC)
		return 6;
	return magic == PCAP_MAGIC_NSEC ? 9 : 0;
}

static bool read_old_header(struct ob_pcap_reader *reader)
{
	const unsigned char *bytes = fetch(reader, 0, PCAP_HEADER_BYTES);

	if (!bytes)
		return false;
	reader->interfaces[0].resolution = resolution_of(get32(reader, bytes));
	if (!reader->interfaces[0].resolution) {
		reader->is_swapped = true;
		reader->interfaces[0].resolution = resolution_of(get32(reader, bytes));
	}
	if (!reader->interfaces[0].resolution)
		return fail(reader, "it is neither pcapng nor pcap");
	/* The upper bits of the link type are about frame check sequences. */
	if ((get32(reader, bytes + 20) & 0xffff) != LINK_ETHERNET)
		return fail(reader, "its packets are not Ethernet frames");
	reader->is_old = true;
	reader->count = 1;
	reader->at = PCAP_HEADER_BYTES;
	return true;
}

/* ---- the file ------------------------------------------------------------- */

static bool read_header(struct ob_pcap_reader *reader)
{
	const unsigned char *bytes;

	if (reader->size < PCAPNG_BLOCK_LEAST)
		return fail(reader, "it is too short");
	bytes = fetch(reader, 0, 4);
	if (!bytes)
		return false;
	/* This type reads the same in both byte orders. */
	if (get32(reader, bytes) == PCAPNG_SECTION)
		return begin_section(reader, 0);
	return read_old_header(reader);
}

static int open_file(struct ob_pcap_reader *reader, const char *path)
{
	struct stat status;

	reader->fd = raw_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (reader->fd < 0)
		return -errno;
	if (!fstat(reader->fd, &status) && S_ISREG(status.st_mode)) {
		reader->size = (uint64_t)status.st_size;
		/* No capture of this kernel or another one empties it meanwhile. */
		ob_pcap_lock(reader->fd, F_RDLCK);
		return 0;
	}
	raw_close(reader->fd);
	reader->problem = "it is not a regular file";
	return -EINVAL;
}

int ob_pcap_reader_open(struct ob_pcap_reader *reader, const char *path)
{
	int result;

	memset(reader, 0, sizeof(*reader));
	result = open_file(reader, path);
	if (result)
		return result;
	reader->window = malloc(WINDOW_BYTES);
	if (reader->window && read_header(reader))
		return 0;
	result = reader->window ? -EINVAL : -ENOMEM;
	ob_pcap_reader_close(reader);
	return result;
}

void ob_pcap_reader_close(struct ob_pcap_reader *reader)
{
	raw_close(reader->fd);
	free(reader->window);
}

bool ob_pcap_read(struct ob_pcap_reader *reader, struct ob_pcap_frame *frame)
{
	while (!reader->problem && reader->at < reader->size)
		if (reader->is_old ? read_record(reader, frame) : read_block(reader, frame))
			return true;
	return false;
}
