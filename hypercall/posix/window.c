// SPDX-License-Identifier: GPL-2.0-only
/*
 * Windows: ob_host_map maps a range of RAM's files into reserved address space, ob_host_unmap
 * restores the reservation.
 *
 * Memory of a snapshot comes first. Pages of RAM move to the memfd before a window shows them
 * (snapshot/pages.c). A piece of the window that is mapped from the snapshot is settled before its
 * mappings change (snapshot/pieces.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "regions.h"

static bool window_contains(struct ob_host *host, uint64_t address, uint64_t size)
{
	return ob_posix_region_contains(host, OB_REGION_VMALLOC, address, size) ||
	       ob_posix_region_contains(host, OB_REGION_MODULES, address, size) ||
	       ob_posix_region_contains(host, OB_REGION_CLIENT, address, size);
}

/* Maps a range that is in one of RAM's files. */
static int show(struct ob_host *host, uint64_t address, uint64_t physical, uint64_t size,
		uint32_t protection)
{
	void *got = mmap((void *)address, size, ob_posix_protection(protection),
			 MAP_SHARED | MAP_FIXED | MAP_NORESERVE, ob_posix_ram_fd(host, physical),
			 (off_t)physical);

	return got == MAP_FAILED ? -ENOMEM : 0;
}

int ob_host_map(struct ob_host *host, uint64_t address, uint64_t physical, uint64_t size,
		uint32_t protection)
{
	uint64_t ram_size = host->regions[OB_REGION_RAM].size;
	uint64_t border = host->ram.huge_from, below = 0;

	if (!ob_posix_is_page_range(address, size) || !window_contains(host, address, size))
		return -EINVAL;
	if (physical % PAGE_BYTES || physical > ram_size || size > ram_size - physical)
		return -EINVAL;
	if (ob_posix_pages_share(host, physical, size) ||
	    ob_posix_pieces_settle(host, address, size, true))
		return -ENOMEM;
	ob_posix_headroom_begin(host);
	if (physical < border && border - physical < size)
		below = border - physical;
	if (below && show(host, address, physical, below, protection))
		return -ENOMEM;
	return show(host, address + below, physical + below, size - below, protection);
}

/*
 * When the kernel unmaps the whole window, it will map the same pages again. Contents that it
 * unmaps otherwise are of no more use.
 */
static bool is_whole_window(struct ob_host *host, uint64_t address, uint64_t size)
{
	const struct ob_posix_region *modules = &host->regions[OB_REGION_MODULES];

	return address == modules->address && size == modules->size;
}

int ob_host_unmap(struct ob_host *host, uint64_t address, uint64_t size)
{
	int error;

	if (!ob_posix_is_page_range(address, size) || !window_contains(host, address, size))
		return -EINVAL;
	if (ob_posix_pieces_settle(host, address, size, is_whole_window(host, address, size))) {
		ob_posix_headroom_give_up(host);
		error = ob_posix_pieces_settle(host, address, size,
					       is_whole_window(host, address, size));
		ob_posix_headroom_keep(host);
		if (error)
			return -ENOMEM;
	}
	if (ob_posix_reservation(address, size, MAP_FIXED) != MAP_FAILED)
		return 0;
	ob_posix_headroom_give_up(host);
	if (ob_posix_reservation(address, size, MAP_FIXED) == MAP_FAILED)
		return -ENOMEM;
	ob_posix_headroom_keep(host);
	return 0;
}

int ob_host_unmap_many(struct ob_host *host, const struct ob_range *ranges, uint32_t count)
{
	int error = 0;

	for (uint32_t i = 0; i < count; i++) {
		int failed = ob_host_unmap(host, ranges[i].address, ranges[i].size);

		error = error ? error : failed;
	}
	return error;
}
