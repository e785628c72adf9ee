// SPDX-License-Identifier: GPL-2.0-only
/*
 * Saving, second step: writes the file.
 *
 * The file is written under another name, and renamed when it is complete, so that nobody finds
 * half of one. If several processes save the same snapshot, the last one wins. Processes that have
 * mapped the file before keep their version.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "raw.h"
#include "snapshot.h"

static int write_all(int fd, const void *from, uint64_t size, uint64_t offset)
{
	while (size) {
		ssize_t written = raw_pwrite(fd, from, size, (off_t)offset);

		if (written <= 0)
			return written ? -errno : -ENOSPC;
		from = (const char *)from + written;
		offset += (uint64_t)written;
		size -= (uint64_t)written;
	}
	return 0;
}

/* Leaves zero pages as holes of the file. */
static int write_sparse(int fd, uint64_t address, uint64_t size, uint64_t offset)
{
	uint64_t end = address + size, at = address;
	int error = 0;

	while (at < end && !error) {
		uint64_t zeroes = ob_snapshot_run_length(at, end, true);
		uint64_t length = ob_snapshot_run_length(at + zeroes, end, false);

		at += zeroes;
		error = write_all(fd, (const void *)at, length, offset + (at - address));
		at += length;
	}
	return error;
}

static struct ob_snapshot_header make_header(struct ob_host *host)
{
	struct ob_snapshot_header header = {
		.key_size = (strlen(host->snapshot.key) + 8) & ~7ull,
		.extent_count = host->saving.count,
	};

	memcpy(header.magic, OB_SNAPSHOT_MAGIC, sizeof(OB_SNAPSHOT_MAGIC));
	memcpy(header.regions, host->regions, sizeof(header.regions));
	header.data = sizeof(header) + header.key_size +
		      header.extent_count * sizeof(struct ob_extent);
	header.data = (header.data + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	header.file_size = header.data + host->saving.data_size;
	return header;
}

/* Memory may change a little while it is written: the checksum is that of the file. */
static int seal(int fd, uint64_t size)
{
	struct ob_snapshot_header *header = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	uint64_t sum;

	if (header == MAP_FAILED)
		return -errno;
	sum = ob_snapshot_checksum(header);
	munmap(header, size);
	return write_all(fd, &sum, sizeof(sum), offsetof(struct ob_snapshot_header, checksum));
}

static int write_file(struct ob_host *host, int fd)
{
	struct ob_snapshot_header header = make_header(host);
	int error = 0;

	/* Beyond the limit the host would end the process by SIGXFSZ. */
	if (header.file_size > ob_posix_file_most())
		return -EFBIG;
	if (ftruncate(fd, (off_t)header.file_size))
		error = -errno;
	if (!error)
		error = write_all(fd, &header, sizeof(header), 0);
	if (!error)
		error = write_all(fd, host->snapshot.key, strlen(host->snapshot.key),
				  sizeof(header));
	if (!error)
		error = write_all(fd, host->saving.extents,
				  host->saving.count * sizeof(struct ob_extent),
				  sizeof(header) + header.key_size);
	for (uint64_t i = 0; i < host->saving.count && !error; i++) {
		const struct ob_extent *e = &host->saving.extents[i];

		if (ob_snapshot_is_stack(e))
			error = write_sparse(fd, e->address, e->size, header.data + e->offset);
		else if (e->kind != EXTENT_COMMITTED)
			error = write_all(fd, (const void *)e->address, e->size,
					  header.data + e->offset);
	}
	return error ? error : seal(fd, header.file_size);
}

int ob_host_snapshot_commit(struct ob_host *host)
{
	char temporary[96];
	uint64_t random;
	int fd, error;

	if (ob_host_random(host, &random, sizeof(random)))
		return -EIO;
	snprintf(temporary, sizeof(temporary), ".%s.%016llx", host->snapshot.name,
		 (unsigned long long)random);
	fd = raw_openat(host->snapshot.directory, temporary,
			O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	error = write_file(host, fd);
	raw_close(fd);
	if (!error && renameat(host->snapshot.directory, temporary, host->snapshot.directory,
			       host->snapshot.name))
		error = -errno;
	if (error)
		unlinkat(host->snapshot.directory, temporary, 0);
	ob_snapshot_clean(host);
	return error;
}

void ob_host_snapshot_end(struct ob_host *host, int error)
{
	size_t length = strlen(host->snapshot.status);

	free(host->saving.extents);
	host->saving.extents = NULL;
	host->saving.room = 0;
	if (error)
		snprintf(host->snapshot.status + length, sizeof(host->snapshot.status) - length,
			 "; not saved: %s", strerror(-error));
	else
		snprintf(host->snapshot.status + length, sizeof(host->snapshot.status) - length,
			 "; saved as %s", host->snapshot.name);
}
