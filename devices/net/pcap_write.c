// SPDX-License-Identifier: GPL-2.0-only
/*
 * Capture: the blocks of a pcapng file, and the file. Blocks are collected in a buffer, and the
 * buffer is handed to the host as a whole. So a file that cannot grow ends behind a whole block.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fork_owner.h"
#include "deliver.h"
#include "pcap_write.h"
#include "pcapng.h"
#include "raw.h"
#include "../shared_fd.h"

#define BUFFER_BYTES (512ul << 10)
/* A block of the largest frame. */
#define BLOCK_MOST (OB_NET_ETHERNET_MOST + 64)

/* A pipe that poll() reports as ready takes so much without blocking: PIPE_BUF. */
#define PIPE_BYTES 4096u
#define POLL_MSEC 100
#define END_MSEC 1000

/* ---- blocks --------------------------------------------------------------- */

static void put(struct ob_pcap_writer *writer, const void *bytes, size_t count)
{
	memcpy(writer->bytes + writer->filled, bytes, count);
	writer->filled += count;
}

static void put16(struct ob_pcap_writer *writer, uint16_t value)
{
	put(writer, &value, sizeof(value));
}

static void put32(struct ob_pcap_writer *writer, uint32_t value)
{
	put(writer, &value, sizeof(value));
}

static void pad(struct ob_pcap_writer *writer)
{
	while (writer->filled % 4)
		writer->bytes[writer->filled++] = 0;
}

static void put_option(struct ob_pcap_writer *writer, uint16_t code, const void *value,
		       uint16_t length)
{
	put16(writer, code);
	put16(writer, length);
	if (length)
		put(writer, value, length);
	pad(writer);
}

/* Times are in two halves, the upper one first, also in a little-endian file. */
static void put_time(struct ob_pcap_writer *writer, uint64_t time)
{
	put32(writer, (uint32_t)(time >> 32));
	put32(writer, (uint32_t)time);
}

static void put_time_option(struct ob_pcap_writer *writer, uint16_t code, uint64_t time)
{
	put16(writer, code);
	put16(writer, 8);
	put_time(writer, time);
}

/* Returns where the block begins. All blocks begin at a multiple of 4. */
static size_t begin_block(struct ob_pcap_writer *writer, uint32_t type)
{
	size_t begin = writer->filled;

	put32(writer, type);
	put32(writer, 0);
	return begin;
}

static void end_block(struct ob_pcap_writer *writer, size_t begin)
{
	uint32_t length = (uint32_t)(writer->filled - begin + sizeof(length));

	put32(writer, length);
	memcpy(writer->bytes + begin + 4, &length, sizeof(length));
}

static void put_end_option(struct ob_pcap_writer *writer)
{
	put_option(writer, OPTION_END, NULL, 0);
}

static void put_text_option(struct ob_pcap_writer *writer, uint16_t code, const char *text)
{
	size_t length = strlen(text);

	put_option(writer, code, text, length < 256 ? (uint16_t)length : 256);
}

void ob_pcap_write_head(struct ob_pcap_writer *writer, const char *interface)
{
	const uint64_t unknown_length = UINT64_MAX;
	const unsigned char nanoseconds = 9;
	size_t begin = begin_block(writer, PCAPNG_SECTION);

	put32(writer, PCAPNG_ORDER);
	put16(writer, 1);	/* version 1.0 */
	put16(writer, 0);
	put(writer, &unknown_length, sizeof(unknown_length));
	put_text_option(writer, OPTION_APPLICATION, "Outboard");
	put_end_option(writer);
	end_block(writer, begin);

	begin = begin_block(writer, PCAPNG_INTERFACE);
	put16(writer, LINK_ETHERNET);
	put16(writer, 0);
	put32(writer, 0);	/* frames are never cut off */
	put_text_option(writer, OPTION_NAME, interface);
	put_option(writer, OPTION_RESOLUTION, &nanoseconds, 1);
	put_end_option(writer);
	end_block(writer, begin);
}

unsigned char *ob_pcap_write_frame(struct ob_pcap_writer *writer, uint64_t time, bool outbound,
				   size_t length)
{
	const uint32_t flags = outbound ? FLAGS_OUTBOUND : FLAGS_INBOUND;
	size_t begin = begin_block(writer, PCAPNG_PACKET);
	unsigned char *frame;

	put32(writer, 0);	/* the only interface */
	put_time(writer, time);
	put32(writer, (uint32_t)length);
	put32(writer, (uint32_t)length);
	frame = writer->bytes + writer->filled;
	writer->filled += length;
	pad(writer);
	put_option(writer, OPTION_FLAGS, &flags, sizeof(flags));
	put_end_option(writer);
	end_block(writer, begin);
	return frame;
}

void ob_pcap_write_statistics(struct ob_pcap_writer *writer, uint64_t begin_time, uint64_t end,
			      uint64_t seen, uint64_t dropped)
{
	size_t begin = begin_block(writer, PCAPNG_STATISTICS);

	put32(writer, 0);
	put_time(writer, end);
	put_time_option(writer, OPTION_START, begin_time);
	put_time_option(writer, OPTION_END_TIME, end);
	put_option(writer, OPTION_RECEIVED, &seen, sizeof(seen));
	put_option(writer, OPTION_OS_DROPPED, &dropped, sizeof(dropped));
	put_end_option(writer);
	end_block(writer, begin);
}

/* ---- the file ------------------------------------------------------------- */

/* A FIFO is opened again, so that its flags are our own: ../shared_fd.h. */
static int open_number(unsigned int number)
{
	struct stat status;
	char path[40];
	int fd = -1;

	snprintf(path, sizeof(path), "/proc/self/fd/%u", number);
	if (!fstat((int)number, &status) && S_ISFIFO(status.st_mode))
		fd = raw_open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? raw_dup((int)number) : fd;
}

static bool is_number(const char *path, unsigned int *number)
{
	char end;

	return sscanf(path, "fd:%u%c", number, &end) == 1;
}

static int open_path(const char *path)
{
	unsigned int number;
	int fd;

	if (is_number(path, &number))
		fd = open_number(number);
	else
		/* Captures contain other people's data. */
		fd = raw_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK |
				O_NOCTTY, 0600);
	return fd < 0 ? -errno : fd;
}

/*
 * A file that is in use keeps its contents: another capture, a file that is replayed, a hub, a disk
 * image. File systems without locks leave that to the user.
 */
static int empty_file(int fd)
{
	if (ob_pcap_lock(fd, F_WRLCK) && (errno == EAGAIN || errno == EACCES))
		return -EBUSY;
	return ftruncate(fd, 0) ? -errno : 0;
}

/* The offset at which the capture begins in a file that the program has open. */
static uint64_t position(int fd)
{
	int flags = raw_fcntl(fd, F_GETFL, 0);
	off_t at = lseek(fd, 0, flags & O_APPEND ? SEEK_END : SEEK_CUR);

	return at > 0 ? (uint64_t)at : 0;
}

static int prepare_file(struct ob_pcap_writer *writer, const char *path)
{
	unsigned int number;
	struct stat status;

	writer->is_file = !fstat(writer->fd, &status) && S_ISREG(status.st_mode);
	if (!writer->is_file)
		return 0;
	if (!is_number(path, &number))
		return empty_file(writer->fd);
	writer->written = position(writer->fd);
	return 0;
}

int ob_pcap_writer_open(struct ob_pcap_writer *writer, const char *path)
{
	int fd, result;

	*writer = (struct ob_pcap_writer){ .fd = -1, .bytes = malloc(BUFFER_BYTES) };
	if (!writer->bytes)
		return -ENOMEM;
	fd = open_path(path);
	result = fd < 0 ? fd : 0;
	if (!result) {
		writer->fd = fd;
		result = prepare_file(writer, path);
	}
	if (!result)
		return 0;
	ob_fork_owner_drop(&writer->fd);
	ob_pcap_writer_free(writer);
	return result;
}

void ob_pcap_writer_free(struct ob_pcap_writer *writer)
{
	free(writer->bytes);
	writer->bytes = NULL;
}

/* EINTR: the descriptor is closed, and nothing is lost. */
void ob_pcap_writer_close(struct ob_pcap_writer *writer)
{
	int fd = __atomic_exchange_n(&writer->fd, -1, __ATOMIC_SEQ_CST);

	if (raw_close(fd) && errno != EINTR && !writer->error)
		writer->error = -errno;
	ob_pcap_writer_free(writer);
}

bool ob_pcap_writer_is_full(const struct ob_pcap_writer *writer)
{
	return BUFFER_BYTES - writer->filled < BLOCK_MOST;
}

/* Waits until the host takes bytes. False: never, because the capture ends. */
static bool wait_for_reader(const struct ob_pcap_writer *writer, const bool *is_ending)
{
	struct pollfd ready = { writer->fd, POLLOUT, 0 };

	for (int waited = 0; waited < END_MSEC;) {
		if (raw_poll(&ready, 1, POLL_MSEC) > 0)
			return true;
		if (__atomic_load_n(is_ending, __ATOMIC_ACQUIRE))
			waited += POLL_MSEC;
	}
	return false;
}

static ssize_t write_now(const struct ob_pcap_writer *writer, const unsigned char *bytes,
			 size_t count)
{
	struct iovec piece = { (void *)bytes, count };

	if (writer->is_file)
		return raw_write(writer->fd, bytes, count);
	return ob_shared_write(writer->fd, &piece, 1);
}

static ssize_t write_some(struct ob_pcap_writer *writer, const unsigned char *bytes, size_t count,
			  const bool *is_ending)
{
	if (!writer->is_file) {
		if (!wait_for_reader(writer, is_ending))
			return -ETIMEDOUT;
		if (count > PIPE_BYTES)
			count = PIPE_BYTES;
	}
	for (;;) {
		ssize_t written = write_now(writer, bytes, count);

		if (written > 0)
			return written;
		if (written == 0)
			return -EIO;
		if (errno == EAGAIN && !writer->is_file)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
}

void ob_pcap_write_out(struct ob_pcap_writer *writer, const bool *is_ending)
{
	size_t at = 0;

	while (at < writer->filled && !writer->error) {
		ssize_t written = write_some(writer, writer->bytes + at, writer->filled - at,
					     is_ending);

		if (written < 0)
			writer->error = (int)written;
		else
			at += (size_t)written;
	}
	if (!writer->error)
		writer->written += at;
	else if (at && writer->is_file && ftruncate(writer->fd, (off_t)writer->written))
		/* The file ends in half a block; its readers report that. */
		at = 0;
	writer->filled = 0;
}
