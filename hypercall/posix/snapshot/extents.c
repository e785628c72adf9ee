// SPDX-License-Identifier: GPL-2.0-only
/*
 * Saving, first step: the table of extents, which lists the memory to save.
 *
 * Zero pages are not saved, except in the image, whose data are not zero in a new process. Stacks
 * and pieces of the MODULES window are mapped as a whole later (closed.c). So they are as far from
 * each other in the file as in memory, with holes between them.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"

/* Shorter runs of zero pages are saved: a mapping costs more. */
#define GAP_PAGES 4

/* The largest hole in the file between two pieces that one call maps. */
#define HOLE_BYTES_MOST (256ull << 10)

int ob_host_snapshot_begin(struct ob_host *host)
{
	if (host->snapshot.directory < 0)
		return -ENOENT;
	host->saving.count = 0;
	host->saving.data_size = 0;
	return 0;
}

static int add_extent(struct ob_host *host, uint64_t address, uint64_t size, uint32_t kind)
{
	if (host->saving.count == host->saving.room) {
		uint64_t room = host->saving.room ? 2 * host->saving.room : 64;
		struct ob_extent *more = realloc(host->saving.extents, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		host->saving.extents = more;
		host->saving.room = room;
	}
	host->saving.extents[host->saving.count++] = (struct ob_extent){
		.address = address, .size = size, .offset = host->saving.data_size, .kind = kind,
	};
	if (kind != EXTENT_COMMITTED)
		host->saving.data_size += (size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	return 0;
}

static struct ob_extent *last_extent(struct ob_host *host)
{
	return host->saving.count ? &host->saving.extents[host->saving.count - 1] : NULL;
}

/* Leaves the same distance to the extent before as in memory, if it is short. */
static int add_closed(struct ob_host *host, uint64_t address, uint64_t size, uint32_t kind)
{
	const struct ob_extent *last = last_extent(host);

	if (last && ob_snapshot_is_closed(last) && address >= last->address + last->size &&
	    address - (last->address + last->size) <= HOLE_BYTES_MOST)
		host->saving.data_size += address - (last->address + last->size);
	return add_extent(host, address, size, kind);
}

static bool is_zero_page(uint64_t address)
{
	const char *page = (const char *)address;

	return !*page && !memcmp(page, page + 1, PAGE_BYTES - 1);
}

/* Bytes of the pages from here on that are all zero, or all not. */
uint64_t ob_snapshot_run_length(uint64_t address, uint64_t end, bool zero)
{
	uint64_t start = address;

	while (address < end && is_zero_page(address) == zero)
		address += PAGE_BYTES;
	return address - start;
}

/* Adds a range of pages, without its longer runs of zero pages. */
static int add_sparse(struct ob_host *host, uint64_t address, uint64_t end, uint32_t kind)
{
	uint64_t start = address, zeroes;
	int error = 0;

	while (address < end && !error) {
		zeroes = ob_snapshot_run_length(address, end, true);
		if (zeroes < GAP_PAGES * PAGE_BYTES && address > start && address + zeroes < end) {
			address += zeroes;
		} else {
			if (address > start)
				error = add_extent(host, start, address - start, kind);
			start = address += zeroes;
		}
		address += ob_snapshot_run_length(address, end, false);
	}
	if (!error && address > start)
		error = add_extent(host, start, address - start, kind);
	return error;
}

/* Adds a part of the image. Its first and last page may be shared with other data. */
static int add_image(struct ob_host *host, uint64_t address, uint64_t end)
{
	uint64_t first = (address + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	uint64_t last = end & ~(PAGE_BYTES - 1);
	int error = 0;

	if (first >= last)
		return add_extent(host, address, end - address, OB_SNAPSHOT_PRIVATE);
	if (address < first)
		error = add_extent(host, address, first - address, OB_SNAPSHOT_PRIVATE);
	if (!error)
		error = add_extent(host, first, last - first, OB_SNAPSHOT_PRIVATE);
	if (!error && last < end)
		error = add_extent(host, last, end - last, OB_SNAPSHOT_PRIVATE);
	return error;
}

int ob_host_snapshot_add(struct ob_host *host, uint64_t address, uint64_t size,
			 enum ob_snapshot_kind kind)
{
	int error;

	if (ob_snapshot_is_in(host, OB_REGION_RAM, address))
		return add_sparse(host, address, address + size, kind);
	if (!ob_snapshot_is_in(host, OB_REGION_STACKS, address) &&
	    !ob_snapshot_is_in(host, OB_REGION_PAGES, address))
		return add_image(host, address, address + size);
	if (ob_snapshot_is_in(host, OB_REGION_STACKS, address))
		return add_closed(host, address, size,
				  kind == OB_SNAPSHOT_URGENT ? EXTENT_URGENT_STACK : EXTENT_STACK);
	error = add_extent(host, address, size, EXTENT_COMMITTED);
	return error ? error : add_sparse(host, address, address + size, kind);
}

int ob_host_snapshot_add_window(struct ob_host *host, uint64_t address, uint64_t physical,
				uint32_t protection)
{
	struct ob_extent *last = last_extent(host);
	int error;

	if (last && last->kind == EXTENT_WINDOW && last->address + last->size == address &&
	    last->physical + last->size == physical && last->protection == protection) {
		last->size += PAGE_BYTES;
		host->saving.data_size += PAGE_BYTES;
		return 0;
	}
	error = add_closed(host, address, PAGE_BYTES, EXTENT_WINDOW);
	if (!error) {
		last = last_extent(host);
		last->physical = physical;
		last->protection = protection;
	}
	return error;
}
