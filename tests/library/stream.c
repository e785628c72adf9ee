// SPDX-License-Identifier: GPL-2.0-only
/* Streams with checked contents: stream.h. */
#include <pthread.h>

#include "check.h"
#include "stream.h"

#define PIECE 65536

unsigned char stream_byte(uint64_t place, unsigned int number)
{
	uint64_t word = (place / 8 + number) * 0x9e3779b97f4a7c15ull;

	return (unsigned char)(word >> (place % 8 * 8));
}

static size_t piece_of(uint64_t left)
{
	return left < PIECE ? left : PIECE;
}

void *stream_send(void *argument)
{
	const struct stream *stream = argument;
	unsigned char *piece = malloc(PIECE);
	uint64_t done = 0;

	CHECK(piece);
	while (done < stream->bytes) {
		size_t size = piece_of(stream->bytes - done), sent = 0;

		for (size_t i = 0; i < size; i++)
			piece[i] = stream_byte(done + i, stream->sends);
		while (sent < size) {
			long result = stream->send(stream, piece + sent, size - sent);

			CHECK(result > 0);
			sent += (size_t)result;
		}
		done += size;
	}
	free(piece);
	return NULL;
}

void stream_receive(const struct stream *stream, uint64_t from, uint64_t to)
{
	unsigned char *piece = malloc(PIECE);

	CHECK(piece);
	while (from < to) {
		long got = stream->receive(stream, piece, piece_of(to - from));

		CHECK(got > 0);
		for (long i = 0; i < got; i++)
			CHECK_EQUAL(piece[i], stream_byte(from + (uint64_t)i, stream->receives));
		from += (uint64_t)got;
	}
	free(piece);
}

void stream_exchange(struct stream *stream)
{
	pthread_t sender;

	CHECK_EQUAL(pthread_create(&sender, NULL, stream_send, stream), 0);
	stream_receive(stream, 0, stream->bytes);
	CHECK_EQUAL(pthread_join(sender, NULL), 0);
}
