// SPDX-License-Identifier: GPL-2.0-only
/*
 * Capture: writes the frames of an interface into a file, as pcapng.
 *
 * Any number of threads put frames into a ring; one thread takes them out and writes. A thread that
 * puts never waits:
 *
 *  1. It reserves the space of a record, by a compare-and-swap of `reserved`. If there is no space,
 *     the frame is counted as dropped.
 *  2. It copies the frame behind the record's head.
 *  3. It stores the record's size into the head: the record is complete.
 *
 * The writer waits for the size of the record at `taken`, which is 0 until then. It fills the
 * space of a record with zeroes before it gives the space back.
 *
 * Frames of a segmentation offload are written whole, as tcpdump shows them on a host with
 * offloads. The statistics at the end have the number of dropped frames.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fork_owner.h"
#include "backend.h"
#include "clock.h"
#include "internal.h"
#include "pcap_write.h"
#include "pieces.h"
#include "report.h"
#include "wrap.h"

#define RING_BYTES (8ul << 20)
#define RECORD_ALIGNMENT 32u

/*
 * The writer sleeps so long after it has taken all frames: then it takes many at a time, and the
 * senders need not wake it for each.
 */
#define REST_NSEC 1000000ull

/* One record's head. It never crosses the end of the ring. */
struct record {
	uint32_t size;		/* in the ring, with the head; 0: not complete; atomic */
	uint32_t length;	/* of the frame */
	uint64_t time;
	bool outbound;
};

_Static_assert(sizeof(struct record) <= RECORD_ALIGNMENT, "a head is in one piece");
_Static_assert(RING_BYTES % RECORD_ALIGNMENT == 0, "a head is in one piece");
_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "wrap.h wants a power of two");

struct ob_net_capture {
	struct ob_host *host;
	struct ob_pcap_writer writer;
	struct ob_fork_owner owner;		/* of the writer's descriptor */
	uint64_t thread;
	uint64_t begin;
	unsigned char *ring;
	bool ending;				/* atomic */
	uint32_t begun;				/* the head is written, or has failed; atomic */
	char name[64];
	_Alignas(64) uint64_t reserved;		/* bytes in all; atomic */
	uint64_t seen, dropped;			/* frames; atomic */
	uint32_t arrivals;			/* atomic */
	_Alignas(64) uint64_t taken;		/* bytes in all; atomic; of the writer */
	bool sleeping;				/* the writer waits for arrivals; atomic */
};

static uint64_t now(void)
{
	return ob_net_clock(CLOCK_REALTIME);
}

static size_t record_size(size_t length)
{
	return (RECORD_ALIGNMENT + length + RECORD_ALIGNMENT - 1) & ~(RECORD_ALIGNMENT - 1ul);
}

static struct record *record_at(const struct ob_net_capture *capture, uint64_t position)
{
	return (struct record *)(capture->ring + position % RING_BYTES);
}

/* ---- threads that put frames ---------------------------------------------- */

static bool reserve(struct ob_net_capture *capture, size_t size, uint64_t *position)
{
	uint64_t reserved = __atomic_load_n(&capture->reserved, __ATOMIC_RELAXED);

	do {
		uint64_t taken = __atomic_load_n(&capture->taken, __ATOMIC_ACQUIRE);

		/* `taken` may be newer than `reserved`, and higher. */
		if (reserved + size > taken + RING_BYTES)
			return false;
	} while (!__atomic_compare_exchange_n(&capture->reserved, &reserved, reserved + size, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	*position = reserved;
	return true;
}

/* The pieces may be longer than the frame: a buffer that was filled in part. */
static void copy_frame(struct ob_net_capture *capture, uint64_t position,
		       const struct iovec *pieces, int count, size_t length)
{
	size_t skip = OB_NET_HEADER_BYTES;

	for (int i = 0; i < count && length; i++) {
		size_t begin = skip < pieces[i].iov_len ? skip : pieces[i].iov_len;
		size_t some = pieces[i].iov_len - begin;

		skip -= begin;
		if (some > length)
			some = length;
		ob_net_copy_in(capture->ring, RING_BYTES, position,
			       (const char *)pieces[i].iov_base + begin, some);
		position += some;
		length -= some;
	}
}

static void wake_writer(struct ob_net_capture *capture)
{
	/* Either this sees that the writer sleeps, or the writer sees the record. */
	if (!__atomic_load_n(&capture->sleeping, __ATOMIC_SEQ_CST))
		return;
	__atomic_add_fetch(&capture->arrivals, 1, __ATOMIC_SEQ_CST);
	if (__atomic_exchange_n(&capture->sleeping, false, __ATOMIC_SEQ_CST))
		ob_host_wake(capture->host, &capture->arrivals, 1);
}

void ob_net_pcap_frame(struct ob_net_capture *capture, bool outbound, const struct iovec *pieces,
		       int count, size_t length)
{
	uint64_t position;
	struct record *record;
	size_t size;

	if (length > ob_net_pieces_length(pieces, count))
		length = ob_net_pieces_length(pieces, count);
	if (length <= OB_NET_HEADER_BYTES || length > OB_NET_FRAME_MOST)
		return;
	length -= OB_NET_HEADER_BYTES;
	__atomic_add_fetch(&capture->seen, 1, __ATOMIC_RELAXED);
	size = record_size(length);
	if (!reserve(capture, size, &position)) {
		__atomic_add_fetch(&capture->dropped, 1, __ATOMIC_RELAXED);
		return;
	}
	record = record_at(capture, position);
	record->length = (uint32_t)length;
	record->time = now();
	record->outbound = outbound;
	copy_frame(capture, position + RECORD_ALIGNMENT, pieces, count, length);
	__atomic_store_n(&record->size, (uint32_t)size, __ATOMIC_SEQ_CST);
	wake_writer(capture);
}

/* ---- the writer ----------------------------------------------------------- */

static void clear(struct ob_net_capture *capture, uint64_t position, size_t count)
{
	size_t first = ob_net_before_end(RING_BYTES, position, count);

	memset(capture->ring + position % RING_BYTES, 0, first);
	memset(capture->ring, 0, count - first);
}

/* Is the next record complete? */
static uint32_t next_size(const struct ob_net_capture *capture)
{
	return __atomic_load_n(&record_at(capture, capture->taken)->size, __ATOMIC_SEQ_CST);
}

/* Moves complete records into the writer's buffer, until that is full. False: there were none. */
static bool take_records(struct ob_net_capture *capture)
{
	uint64_t taken = capture->taken;
	uint64_t before = taken;
	uint32_t size;

	while (!ob_pcap_writer_is_full(&capture->writer) && (size = next_size(capture))) {
		const struct record *record = record_at(capture, taken);

		ob_net_copy_out(capture->ring, RING_BYTES, taken + RECORD_ALIGNMENT,
				ob_pcap_write_frame(&capture->writer, record->time,
						    record->outbound, record->length),
				record->length);
		clear(capture, taken, size);
		taken += size;
		__atomic_store_n(&capture->taken, taken, __ATOMIC_RELEASE);
	}
	return taken != before;
}

static bool is_ending(const struct ob_net_capture *capture)
{
	return __atomic_load_n(&capture->ending, __ATOMIC_SEQ_CST);
}

/* Sleeps until a frame comes, and a little longer, or until the end. */
static void wait_for_frames(struct ob_net_capture *capture)
{
	uint32_t seen = __atomic_load_n(&capture->arrivals, __ATOMIC_SEQ_CST);
	uint32_t rest = 0;

	__atomic_store_n(&capture->sleeping, true, __ATOMIC_SEQ_CST);
	if (!next_size(capture) && !is_ending(capture))
		ob_host_wait(capture->host, &capture->arrivals, seen, OB_FOREVER);
	__atomic_store_n(&capture->sleeping, false, __ATOMIC_SEQ_CST);
	if (!is_ending(capture))
		ob_host_wait(capture->host, &rest, 0, REST_NSEC);
}

static void report_error(struct ob_net_capture *capture)
{
	const char *reason = strerrordesc_np(-capture->writer.error);
	char text[200];

	if (capture->writer.error == -ETIMEDOUT)
		reason = "its reader does not read";
	snprintf(text, sizeof(text), "net %s: the capture ends early: %s",
		 capture->name, reason);
	ob_net_warn(capture->host, text);
}

static void write_out(struct ob_net_capture *capture)
{
	bool has_failed = capture->writer.error;

	ob_pcap_write_out(&capture->writer, &capture->ending);
	if (capture->writer.error && !has_failed)
		report_error(capture);
}

static void write_frames(void *pointer)
{
	struct ob_net_capture *capture = pointer;
	bool was_ending;

	do {
		/* Frames that came before the end are written. */
		was_ending = is_ending(capture);
		while (take_records(capture))
			write_out(capture);
		if (!was_ending)
			wait_for_frames(capture);
	} while (!was_ending);
	ob_pcap_write_statistics(&capture->writer, capture->begin, now(),
				 __atomic_load_n(&capture->seen, __ATOMIC_RELAXED),
				 __atomic_load_n(&capture->dropped, __ATOMIC_RELAXED));
	write_out(capture);
}

/* ---- open and close ------------------------------------------------------- */

static void free_capture(struct ob_net_capture *capture)
{
	ob_fork_owner_remove(&capture->owner);
	free(capture->ring);
	free(capture);
}

/* Closes the file, and frees the capture. A file system may report only now that it is full. */
static void release(struct ob_net_capture *capture)
{
	bool has_failed = capture->writer.error;

	ob_pcap_writer_close(&capture->writer);
	if (capture->writer.error && !has_failed)
		report_error(capture);
	free_capture(capture);
}

static void close_descriptor(struct ob_fork_owner *owner)
{
	struct ob_net_capture *capture =
		(struct ob_net_capture *)((char *)owner - offsetof(struct ob_net_capture, owner));

	ob_fork_owner_drop(&capture->writer.fd);
}

static struct ob_net_capture *new_capture(struct ob_host *host, const char *interface)
{
	struct ob_net_capture *capture = aligned_alloc(64, sizeof(*capture));

	if (!capture)
		return NULL;
	memset(capture, 0, sizeof(*capture));
	capture->writer.fd = -1;
	ob_fork_owner_add(&capture->owner, close_descriptor);
	capture->host = host;
	capture->begin = now();
	snprintf(capture->name, sizeof(capture->name), "%s", interface);
	/* Pages that are never used stay unallocated. */
	capture->ring = calloc(1, RING_BYTES);
	if (capture->ring)
		return capture;
	free_capture(capture);
	return NULL;
}

/* The head comes at once, so that a reader of a FIFO sees the interface. */
static void write_head_and_frames(void *pointer)
{
	static const bool has_limit = true;
	struct ob_net_capture *capture = pointer;
	int error;

	ob_pcap_write_head(&capture->writer, capture->name);
	ob_pcap_write_out(&capture->writer, &has_limit);
	error = capture->writer.error;
	__atomic_store_n(&capture->begun, 1, __ATOMIC_SEQ_CST);
	ob_host_wake(capture->host, &capture->begun, 1);
	if (!error)
		write_frames(capture);
}

/* Waits for the head. The thread has ended then if that failed. */
static int start_writer(struct ob_net_capture *capture)
{
	int error = ob_host_thread_create(capture->host, write_head_and_frames, capture,
					  "outboard-pcap", &capture->thread);

	if (error)
		return error;
	while (!__atomic_load_n(&capture->begun, __ATOMIC_SEQ_CST))
		ob_host_wait(capture->host, &capture->begun, 0, OB_FOREVER);
	/* Nobody has put a frame yet, so a failure now is the head's. */
	error = capture->writer.error;
	if (error)
		ob_host_thread_join(capture->host, capture->thread);
	return error;
}

static void explain(const char *interface, const char *path, int result, char *error, size_t size)
{
	const char *reason = strerrordesc_np(-result);

	if (result == -ENXIO)
		reason = "nothing reads the FIFO; start its reader first";
	if (result == -EBUSY)
		reason = "the file is in use; another capture may write it";
	snprintf(error, size, "net %s: cannot write the capture to %.200s: %s", interface, path,
		 reason);
}

int ob_net_pcap_open(struct ob_host *host, const char *path, const char *interface,
		     struct ob_net_capture **capture, char *error, size_t error_size)
{
	struct ob_net_capture *new = new_capture(host, interface);
	int result = new ? ob_pcap_writer_open(&new->writer, path) : -ENOMEM;

	if (result) {
		explain(interface, path, result, error, error_size);
		if (new)
			free_capture(new);
		return result;
	}
	/* This thread gets no SIGPIPE: the new one writes everything, and blocks all signals. */
	result = start_writer(new);
	if (result) {
		explain(interface, path, result, error, error_size);
		release(new);
		return result;
	}
	*capture = new;
	return 0;
}

void ob_net_pcap_close(struct ob_net_capture *capture)
{
	__atomic_store_n(&capture->ending, true, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&capture->arrivals, 1, __ATOMIC_SEQ_CST);
	ob_host_wake(capture->host, &capture->arrivals, 1);
	ob_host_thread_join(capture->host, capture->thread);
	release(capture);
}

/* The child has closed the file, and has forgotten the owner. */
void ob_net_pcap_forked(struct ob_net_capture *capture)
{
	ob_pcap_writer_free(&capture->writer);
	free(capture->ring);
	free(capture);
}
