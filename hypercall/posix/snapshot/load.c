// SPDX-License-Identifier: GPL-2.0-only
/* Starts a kernel from a snapshot: maps its extents, the kernel image's last. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "raw.h"
#include "regions.h"
#include "snapshot.h"

static int fill(struct ob_host *host, const struct ob_snapshot_header *header,
		const struct ob_extent *e, int fd)
{
	switch (e->kind) {
	case EXTENT_COMMITTED:
		return ob_host_region_commit(host, e->address, e->size);
	case EXTENT_STACK:
	case EXTENT_URGENT_STACK:
		return ob_posix_pieces_note_stack(host, e->address, e->size,
						  e->kind == EXTENT_URGENT_STACK);
	case EXTENT_WINDOW:
		return ob_posix_pieces_note_window(host, e->address, e->size, e->physical,
						   e->protection);
	}
	return ob_posix_snapshot_fill(host, e->address, e->size, fd, header->data + e->offset,
				    (enum ob_snapshot_kind)e->kind);
}

bool ob_snapshot_is_in(struct ob_host *host, enum ob_region region, uint64_t address)
{
	const struct ob_posix_region *r = &host->regions[region];

	return address >= r->address && address - r->address < r->size;
}

static bool is_in_image(struct ob_host *host, uint64_t address)
{
	for (int i = 0; i < OB_REGIONS; i++)
		if (ob_snapshot_is_in(host, (enum ob_region)i, address))
			return false;
	return true;
}

bool ob_snapshot_is_stack(const struct ob_extent *e)
{
	return e->kind == EXTENT_STACK || e->kind == EXTENT_URGENT_STACK;
}

/* Mapped without access at first, together with its neighbours. */
bool ob_snapshot_is_closed(const struct ob_extent *e)
{
	return ob_snapshot_is_stack(e) || e->kind == EXTENT_WINDOW;
}

static bool is_continued(const struct ob_extent *e, const struct ob_extent *next)
{
	return ob_snapshot_is_closed(next) &&
	       ob_snapshot_is_stack(next) == ob_snapshot_is_stack(e) &&
	       next->address > e->address && next->address - e->address == next->offset - e->offset;
}

/* Maps as many pieces from this one on as one call can. */
static int map_closed(struct ob_host *host, const struct ob_snapshot_header *header,
		      const struct ob_extent *e, const struct ob_extent *end, int fd)
{
	const struct ob_extent *last = e;

	while (last + 1 < end && is_continued(last, last + 1))
		last++;
	return ob_posix_pieces_map(host, e->address, last->address + last->size - e->address,
					  fd, header->data + e->offset);
}

/* Fills the extents of the image, or all others. */
static int fill_all(struct ob_host *host, const struct ob_snapshot_header *header, int fd,
		    bool image)
{
	const struct ob_extent *first = ob_snapshot_extents(header);
	const struct ob_extent *end = first + header->extent_count, *e;
	int error = 0;

	for (e = first; e < end && !error; e++) {
		if (is_in_image(host, e->address) != image)
			continue;
		if (ob_snapshot_is_closed(e) && (e == first || !is_continued(e - 1, e)))
			error = map_closed(host, header, e, end, fd);
		if (!error)
			error = fill(host, header, e, fd);
	}
	return error;
}

/* The buffer is large enough: snapshot names are short. */
static __attribute__((noreturn)) void end_half_loaded(struct ob_host *host, int error)
{
	char line[256];

	snprintf(line, sizeof(line),
		 "outboard: the snapshot %.96s cannot be mapped, and is removed: %.96s\n",
		 host->snapshot.name, strerror(-error));
	ob_posix_print(line);
	abort();
}

/* The image comes last: once its data are mixed, there is no way back. */
static int load_from(struct ob_host *host, const struct ob_snapshot_header *header, int fd)
{
	int error = ob_posix_regions_reserve(host, header->regions);

	if (error)
		return ob_snapshot_report(host, error,
					  "not used: its addresses are not free in this process");
	error = fill_all(host, header, fd, false);
	if (error) {
		ob_posix_regions_release(host);
		return ob_snapshot_report(host, error, "not used: it cannot be mapped: %s",
					  strerror(-error));
	}
	error = fill_all(host, header, fd, true);
	if (error) {
		unlinkat(host->snapshot.directory, host->snapshot.name, 0);
		end_half_loaded(host, error);
	}
	ob_posix_snapshot_filled(host);
	if (ob_posix_faults_are_blocked())
		ob_posix_closed_open_all(host);
	return ob_snapshot_report(host, 0, "started from %s", host->snapshot.name);
}

int ob_host_snapshot_load(struct ob_host *host)
{
	struct ob_snapshot_header *header;
	const char *fault;
	struct stat status;
	int fd, error = -ENOENT;

	if (host->snapshot.directory < 0)
		return -ENOENT;
	fd = ob_snapshot_open(host, &status);
	if (fd < 0)
		return fd;
	header = ob_snapshot_read_header(fd, &status);
	fault = header ? ob_snapshot_fault(host, header, fd, &status) : "its header is damaged";
	if (fault)
		ob_snapshot_report(host, 0, "not used: %s", fault);
	else
		error = load_from(host, header, fd);
	free(header);
	raw_close(fd);
	return error ? -ENOENT : 0;
}
