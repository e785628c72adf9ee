/* SPDX-License-Identifier: GPL-2.0-only */
/* Streams with checked contents, over sockets of any kernel. Link with stream.c. */
#ifndef OUTBOARD_TESTS_STREAM_H
#define OUTBOARD_TESTS_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* One end of a connection. Streams have numbers, so that each one has contents of its own. */
struct stream {
	/* As send(2) and recv(2), on this end; -1 ends the test. */
	long (*send)(const struct stream *stream, const void *bytes, size_t size);
	long (*receive)(const struct stream *stream, void *bytes, size_t room);
	void *context;			/* for the functions */
	int fd;
	unsigned int sends, receives;	/* the numbers of both streams */
	uint64_t bytes;			/* of each */
};

/* The byte at a place of a stream: no two streams have the same bytes, and no two places. */
unsigned char stream_byte(uint64_t place, unsigned int number);

/* A thread's function: sends the whole stream. */
void *stream_send(void *stream);

/* Receives and checks the bytes from one place to another. */
void stream_receive(const struct stream *stream, uint64_t from, uint64_t to);

/* Both directions at once. */
void stream_exchange(struct stream *stream);

#endif
