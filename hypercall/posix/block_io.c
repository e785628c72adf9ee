// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block: carries out one request on one disk.
 *
 * The caller tries each request without blocking first. Data in the host's page cache are copied at
 * once, without a switch of threads. If that fails, a worker does the request from its beginning.
 * Long requests of a readahead go to a worker at once. To transfer the same bytes twice is
 * harmless, since the client does not use them before the request is complete.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "block.h"
#include "raw.h"

/* Segments handed to the host at a time; on the stack, well below the host's IOV_MAX. */
#define BATCH 64

/* Least bytes of a readahead that pay for the switch of threads. */
#define AHEAD_LEAST (512ull << 10)

/* Bytes written to a disk after which writeback starts. */
#define SEND_STEP (16ull << 20)

int ob_posix_disk_check(const struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	if (request->operation > OB_BLOCK_ALLOCATE_ZEROES)
		return -EOPNOTSUPP;
	if (request->operation == OB_BLOCK_FLUSH)
		return 0;
	if (request->offset > disk->size || request->length > disk->size - request->offset)
		return -EIO;
	if (request->operation != OB_BLOCK_READ && disk->read_only)
		return -EROFS;
	return 0;
}

/* The progress of a transfer. */
struct position {
	uint32_t segment;
	uint64_t within;	/* bytes done of that segment */
	uint64_t done;		/* bytes done in all */
};

/* Fills the batch with the next segments. Returns the number of entries. */
static int next_batch(const struct ob_block_request *request, const struct position *at,
		      struct iovec *batch)
{
	uint64_t left = request->length - at->done;
	uint64_t within = at->within;
	int count = 0;

	for (uint32_t i = at->segment; i < request->segment_count && left && count < BATCH; i++) {
		const struct ob_block_segment *segment = &request->segments[i];
		uint64_t length = segment->length - within;

		if (length > left)
			length = left;
		batch[count].iov_base = (char *)segment->address + within;
		batch[count].iov_len = length;
		count++;
		left -= length;
		within = 0;
	}
	return count;
}

static void advance(const struct ob_block_request *request, struct position *at, uint64_t bytes)
{
	at->done += bytes;
	at->within += bytes;
	while (at->segment < request->segment_count &&
	       at->within >= request->segments[at->segment].length) {
		at->within -= request->segments[at->segment].length;
		at->segment++;
	}
}

/* Reads or writes all of the request. Returns 0 or -errno; -EAGAIN only with RWF_NOWAIT. */
static int transfer(const struct ob_posix_disk *disk, const struct ob_block_request *request,
		    int flags)
{
	struct position at = { 0 };
	struct iovec batch[BATCH];

	if (disk->checks_append && request->operation == OB_BLOCK_WRITE &&
	    raw_fcntl(disk->fd, F_GETFL, 0) & O_APPEND)
		return -EIO;
	while (at.done < request->length) {
		off_t offset = (off_t)(request->offset + at.done);
		int count = next_batch(request, &at, batch);
		ssize_t bytes;

		if (request->operation == OB_BLOCK_WRITE)
			bytes = raw_pwritev2(disk->fd, batch, count, offset,
					     flags | disk->write_flags);
		else
			bytes = raw_preadv2(disk->fd, batch, count, offset, flags);
		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0)
			return -errno;
		if (bytes == 0)
			/* The file shrank, or the segments are shorter than the request. */
			return -EIO;
		advance(request, &at, (uint64_t)bytes);
	}
	return 0;
}

static bool is_unsupported(int error)
{
	return error == -EOPNOTSUPP || error == -ENOSYS || error == -EINVAL;
}

/* Counts a request that was carried out, perhaps in part, and is not reported yet. */
static void note_change(struct ob_posix_disk *disk)
{
	__atomic_add_fetch(&disk->changes, 1, __ATOMIC_SEQ_CST);
}

static void note_durable(struct ob_posix_disk *disk, uint64_t changes)
{
	uint64_t before = __atomic_load_n(&disk->durable, __ATOMIC_SEQ_CST);

	while (before < changes &&
	       !__atomic_compare_exchange_n(&disk->durable, &before, changes, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static bool is_durable(const struct ob_posix_disk *disk)
{
	uint64_t durable = __atomic_load_n(&disk->durable, __ATOMIC_SEQ_CST);

	return durable == __atomic_load_n(&disk->changes, __ATOMIC_SEQ_CST);
}

/* ---- lost data ------------------------------------------------------------ */

/*
 * When the host could not write data back, it reports that once, and has dropped the data. From
 * then on no flush of this disk succeeds, because it would claim that the data are durable.
 *
 * The one call that gets the report may be a flush or a durable write, about any data of the file.
 * So a call that succeeds waits for those that ran beside it: one of them may have got the report.
 */
static int lost(const struct ob_posix_disk *disk)
{
	return __atomic_load_n(&disk->lost, __ATOMIC_SEQ_CST);
}

static void begin_report(struct ob_posix_disk *disk)
{
	pthread_rwlock_rdlock(&disk->reporters);
}

/* Takes the result of the call. Returns 0 if nothing is lost. */
static int end_report(struct ob_posix_disk *disk, int error)
{
	int none = 0;

	if (error)
		__atomic_compare_exchange_n(&disk->lost, &none, error, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST);
	pthread_rwlock_unlock(&disk->reporters);
	pthread_rwlock_wrlock(&disk->reporters);
	pthread_rwlock_unlock(&disk->reporters);
	return lost(disk);
}

static int sync_all(const struct ob_posix_disk *disk)
{
	struct ob_block_request request = { .operation = OB_BLOCK_FLUSH };

	if (disk->served.perform)
		return disk->served.perform(disk->served.context, &request);
	while (raw_fdatasync(disk->fd))
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int flush(struct ob_posix_disk *disk)
{
	/* The host's flush may miss a write that completes meanwhile. */
	uint64_t changes = __atomic_load_n(&disk->changes, __ATOMIC_SEQ_CST);
	int error = lost(disk);

	if (error || (!disk->served.perform && is_durable(disk)))
		return error;
	begin_report(disk);
	error = end_report(disk, sync_all(disk));
	if (!error)
		note_durable(disk, changes);
	return error;
}

bool ob_posix_disk_try(struct ob_posix_disk *disk, struct ob_block_request *request)
{
	bool is_write = request->operation == OB_BLOCK_WRITE;
	int error;

	if (request->operation == OB_BLOCK_FLUSH && disk->read_only)
		return true;
	/* The program's function may block. */
	if (disk->served.perform)
		return false;
	if (request->operation == OB_BLOCK_FLUSH) {
		request->result = lost(disk);
		return request->result || is_durable(disk);
	}
	if (request->operation != OB_BLOCK_READ && !is_write)
		return false;
	if (request->force_unit_access && is_write)
		return false;
	/* The worker copies these bytes while the caller copies those before them. */
	if (request->ahead && request->length >= AHEAD_LEAST)
		return false;
	if (__atomic_load_n(&disk->no_nowait[is_write], __ATOMIC_RELAXED))
		return false;
	error = transfer(disk, request, RWF_NOWAIT);
	if (is_write)
		note_change(disk);
	if (is_unsupported(error))
		__atomic_store_n(&disk->no_nowait[is_write], true, __ATOMIC_RELAXED);
	return !error;
}

/*
 * Starts writeback to the host's disk from time to time. So a flush, for which everybody waits, has
 * less to do. Errors do not matter here: the flush reports them.
 */
static void send_on(struct ob_posix_disk *disk, uint64_t length)
{
	uint64_t written = __atomic_add_fetch(&disk->written, length, __ATOMIC_RELAXED);

	if (written / SEND_STEP != (written - length) / SEND_STEP)
		raw_sync_file_range(disk->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

static int write_through_cache(struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	int error = transfer(disk, request, 0);

	note_change(disk);
	if (!error)
		send_on(disk, request->length);
	return error;
}

/* One call of the host writes the data and makes them durable. */
static int write_with_dsync(struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	int error;

	begin_report(disk);
	error = transfer(disk, request, RWF_DSYNC);
	if (error)
		note_change(disk);
	if (!is_unsupported(error))
		return end_report(disk, error);
	__atomic_store_n(&disk->no_dsync, true, __ATOMIC_RELAXED);
	end_report(disk, 0);
	return error;
}

static int write_durably(struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	int error = lost(disk);

	if (error)
		return error;
	if (!__atomic_load_n(&disk->no_dsync, __ATOMIC_RELAXED)) {
		error = write_with_dsync(disk, request);
		if (!is_unsupported(error))
			return error;
	}
	error = transfer(disk, request, 0);
	note_change(disk);
	return error ? error : flush(disk);
}

static int fallocate_range(const struct ob_posix_disk *disk, const struct ob_block_request *request,
			   int mode)
{
	while (raw_fallocate(disk->fd, mode | FALLOC_FL_KEEP_SIZE, (off_t)request->offset,
			 (off_t)request->length)) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

static int device_range(const struct ob_posix_disk *disk, const struct ob_block_request *request,
			unsigned long command)
{
	uint64_t range[2] = { request->offset, request->length };

	return ioctl(disk->fd, command, range) ? -errno : 0;
}

static int discard(struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	int error;

	if (disk->is_device)
		error = device_range(disk, request, BLKDISCARD);
	else
		error = fallocate_range(disk, request, FALLOC_FL_PUNCH_HOLE);
	note_change(disk);
	return error;
}

/* For a host, or a program that serves the disk, that cannot zero a range and keep its room. */
static int write_zero_bytes(const struct ob_posix_disk *disk,
			    const struct ob_block_request *request)
{
	static const char zeroes[64 << 10];
	struct ob_block_segment segment = { (void *)zeroes, sizeof(zeroes) };
	struct ob_block_request part = {
		.operation = OB_BLOCK_WRITE, .segments = &segment, .segment_count = 1,
	};
	int error = 0;

	for (uint64_t done = 0; done < request->length && !error; done += part.length) {
		part.offset = request->offset + done;
		part.length = request->length - done;
		if (part.length > sizeof(zeroes))
			part.length = sizeof(zeroes);
		segment.length = part.length;
		error = disk->served.perform ? disk->served.perform(disk->served.context, &part)
					     : transfer(disk, &part, 0);
	}
	return error;
}

/* Zeroes that need no room: a hole, so that a sparse image stays sparse. */
static int write_zeroes(const struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	int error;

	if (disk->is_device)
		return device_range(disk, request, BLKZEROOUT);
	error = fallocate_range(disk, request, FALLOC_FL_PUNCH_HOLE);
	return error == -EOPNOTSUPP ? fallocate_range(disk, request, FALLOC_FL_ZERO_RANGE) : error;
}

/* Zeroes that have room: later writes there cannot fail for want of it. */
static int allocate_zeroes(const struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	int error;

	if (disk->is_device)
		return device_range(disk, request, BLKZEROOUT);
	error = fallocate_range(disk, request, FALLOC_FL_ZERO_RANGE);
	return error == -EOPNOTSUPP ? write_zero_bytes(disk, request) : error;
}

static int write_zeroes_durably(struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	int error;

	if (request->operation == OB_BLOCK_ALLOCATE_ZEROES)
		error = allocate_zeroes(disk, request);
	else
		error = write_zeroes(disk, request);
	note_change(disk);
	return error || !request->force_unit_access ? error : flush(disk);
}

/* The program's functions know nothing of durable writes. */
static int perform_served(struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	struct ob_block_request plain = *request;
	int error = request->force_unit_access ? lost(disk) : 0;

	plain.force_unit_access = 0;
	if (error)
		return error;
	if (request->operation == OB_BLOCK_ALLOCATE_ZEROES)
		error = write_zero_bytes(disk, request);
	else
		error = disk->served.perform(disk->served.context, &plain);
	return error || !request->force_unit_access ? error : flush(disk);
}

/*
 * The flush covers only what was completed before, so the write may need one of its own. A program
 * that serves the disk gets two requests, and the kernel waits once.
 */
static int flush_and_write(struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	struct ob_block_request flushing = { .disk = request->disk, .operation = OB_BLOCK_FLUSH };
	struct ob_block_request writing = *request;
	int error = ob_posix_disk_perform(disk, &flushing);

	writing.operation = OB_BLOCK_WRITE;
	return error ? error : ob_posix_disk_perform(disk, &writing);
}

int ob_posix_disk_perform(struct ob_posix_disk *disk, const struct ob_block_request *request)
{
	if (request->operation == OB_BLOCK_FLUSH_WRITE)
		return flush_and_write(disk, request);
	if (request->operation == OB_BLOCK_FLUSH)
		return flush(disk);
	if (disk->served.perform)
		return perform_served(disk, request);
	if (request->length == 0)
		return 0;
	switch (request->operation) {
	case OB_BLOCK_READ:
		return transfer(disk, request, 0);
	case OB_BLOCK_WRITE:
		return request->force_unit_access ? write_durably(disk, request)
						  : write_through_cache(disk, request);
	case OB_BLOCK_DISCARD:
		return discard(disk, request);
	case OB_BLOCK_WRITE_ZEROES:
	case OB_BLOCK_ALLOCATE_ZEROES:
		return write_zeroes_durably(disk, request);
	}
	return -EOPNOTSUPP;
}
