// SPDX-License-Identifier: GPL-2.0-only
/*
 * Decides whether a snapshot file may be mapped.
 *
 * It must be the user's own file, which nobody else can read or write. Header and table must lie
 * within the file. The checksum must be right. The key must equal, to the byte, the key that this
 * process would save with. After that the contents are trusted: they are a program's memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "raw.h"
#include "snapshot.h"

#define FILE_BYTES_MOST (1ull << 30)
#define HEADER_BYTES_MOST (1ull << 20)

#define CHECKED_FROM (offsetof(struct ob_snapshot_header, checksum) + sizeof(uint64_t))

uint64_t ob_snapshot_checksum(const struct ob_snapshot_header *header)
{
	return ob_posix_checksum((const char *)header + CHECKED_FROM,
				 header->file_size - CHECKED_FROM);
}

const struct ob_extent *ob_snapshot_extents(const struct ob_snapshot_header *header)
{
	return (const struct ob_extent *)((const char *)(header + 1) + header->key_size);
}

/* Reads the file again as a whole: header and table must be what was read before. */
static bool is_sum_right(const struct ob_snapshot_header *header, int fd)
{
	const struct ob_snapshot_header *file = mmap(NULL, header->file_size, PROT_READ,
						     MAP_PRIVATE, fd, 0);
	bool right;

	if (file == MAP_FAILED)
		return false;
	right = !memcmp(file, header, header->data) &&
		header->checksum == ob_snapshot_checksum(file);
	munmap((void *)file, header->file_size);
	return right;
}

static bool is_right(struct ob_host *host, const struct ob_snapshot_header *header, int fd,
		     const struct stat *status)
{
	struct ob_snapshot_note note;
	bool can_note = ob_snapshot_make_note(&note, status);

	if (can_note && ob_snapshot_is_noted(host, &note))
		return true;
	if (!is_sum_right(header, fd))
		return false;
	if (can_note)
		ob_snapshot_write_note(host, &note);
	return true;
}

/* Returns what is wrong with the file, or NULL. */
const char *ob_snapshot_fault(struct ob_host *host, const struct ob_snapshot_header *header, int fd,
			      const struct stat *status)
{
	uint64_t size = (uint64_t)status->st_size;
	uint64_t key_size = strlen(host->snapshot.key) + 1;

	if (memcmp(header->magic, OB_SNAPSHOT_MAGIC, sizeof(OB_SNAPSHOT_MAGIC)) ||
	    header->file_size != size)
		return "it is no snapshot, or not whole";
	if (header->data > size || header->data < sizeof(*header) ||
	    header->key_size > header->data - sizeof(*header) ||
	    header->extent_count >
		    (header->data - sizeof(*header) - header->key_size) / sizeof(struct ob_extent))
		return "its header is damaged";
	if (!is_right(host, header, fd, status))
		return "its checksum is wrong";
	if (header->key_size < key_size || memcmp(header + 1, host->snapshot.key, key_size))
		return "it was made with something else";
	for (uint64_t i = 0; i < header->extent_count; i++) {
		const struct ob_extent *e = &ob_snapshot_extents(header)[i];

		if (e->kind != EXTENT_COMMITTED &&
		    (e->offset > size - header->data || e->size > size - header->data - e->offset))
			return "its table is damaged";
	}
	return NULL;
}

/* Reads header, key and table. NULL: they are damaged, or there is no memory. */
struct ob_snapshot_header *ob_snapshot_read_header(int fd, const struct stat *status)
{
	struct ob_snapshot_header first, *header;

	if (raw_pread(fd, &first, sizeof(first), 0) != (ssize_t)sizeof(first) ||
	    first.data < sizeof(first) || first.data > (uint64_t)status->st_size ||
	    first.data > HEADER_BYTES_MOST)
		return NULL;
	header = malloc(first.data);
	if (header && raw_pread(fd, header, first.data, 0) == (ssize_t)first.data)
		return header;
	free(header);
	return NULL;
}

/* Opens the file if it may be trusted. */
int ob_snapshot_open(struct ob_host *host, struct stat *status)
{
	int fd = raw_openat(host->snapshot.directory, host->snapshot.name,
			    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);

	if (fd < 0 && errno == ENOENT)
		return ob_snapshot_report(host, -ENOENT, "not used: there was none");
	if (fd < 0)
		return ob_snapshot_report(host, -ENOENT, "not used: it cannot be opened: %m");
	if (fstat(fd, status) || !ob_snapshot_is_own(status)) {
		raw_close(fd);
		return ob_snapshot_report(host, -ENOENT,
					  "not used: it is not the user's own file alone");
	}
	if ((uint64_t)status->st_size < sizeof(struct ob_snapshot_header) ||
	    (uint64_t)status->st_size > FILE_BYTES_MOST) {
		raw_close(fd);
		return ob_snapshot_report(host, -ENOENT, "not used: it has an impossible size");
	}
	/* Marks the file as used: clean.c removes old ones. */
	if (status->st_mtime < time(NULL) - OB_SNAPSHOT_DAY && !futimens(fd, NULL))
		fstat(fd, status);
	return fd;
}
