// SPDX-License-Identifier: GPL-2.0-only
/*
 * The regions of a kernel: reserved once, committed piece by piece, released at the end.
 *
 * A window is reserved address space without access: window.c shows pages in it. STACKS and PAGES
 * are reserved in the same way and become accessible by ob_host_region_commit. RAM has files behind
 * it (ram.c), SHADOW belongs to the process (shadow.c).
 *
 * A fork()ed child gets none of it. RAM, STACKS and PAGES are not copied (MADV_DONTFORK). The child
 * unmaps the windows itself, and what was mapped anew in RAM (snapshot/pages.c): to mark each of
 * these mappings would cost a second system call, and marked mappings do not merge with their
 * neighbours. It unmaps nothing else: hooks of others may have mapped memory of their own there.
 *
 * The booting thread reserves the regions before anything else can use them. After that the table
 * is only read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "raw.h"
#include "regions.h"

bool ob_posix_is_window(enum ob_region region)
{
	return region == OB_REGION_VMALLOC || region == OB_REGION_MODULES ||
	       region == OB_REGION_CLIENT;
}

int ob_host_region_reserve(struct ob_host *host, enum ob_region region, uint64_t size,
			   uint64_t *address)
{
	struct ob_posix_region new = { .size = size };
	int error;

	if ((unsigned int)region >= OB_REGIONS || size == 0 || size % PAGE_BYTES)
		return -EINVAL;
	if (region == OB_REGION_SHADOW)
		return ob_posix_shadow_take(host, size, *address);
	if (host->regions[region].size)
		return -EEXIST;
	if (size > (1ull << 47))
		return -ENOMEM;
	if (region == OB_REGION_MODULES)
		error = ob_posix_reserve_near_text(host, size, &new.address);
	else
		error = ob_posix_reserve_placed(host, size, &new.address);
	if (error)
		return error;
	if (region == OB_REGION_RAM)
		error = ob_posix_ram_populate(host, &new);
	if (error) {
		munmap((void *)new.address, size);
		return error;
	}
	if (!ob_posix_is_window(region))
		madvise((void *)new.address, size, MADV_DONTFORK);
	host->regions[region] = new;
	*address = new.address;
	return 0;
}

int ob_host_region_commit(struct ob_host *host, uint64_t address, uint64_t size)
{
	if (!ob_posix_is_page_range(address, size))
		return -EINVAL;
	if (!ob_posix_region_contains(host, OB_REGION_STACKS, address, size) &&
	    !ob_posix_region_contains(host, OB_REGION_PAGES, address, size))
		return -EINVAL;
	if (mprotect((void *)address, size, PROT_READ | PROT_WRITE))
		return -ENOMEM;
	return 0;
}

void ob_host_region_discard(struct ob_host *host, uint64_t address, uint64_t size)
{
	uint64_t ram = host->regions[OB_REGION_RAM].address;

	if (!ob_posix_is_page_range(address, size))
		return;
	if (ob_posix_region_contains(host, OB_REGION_RAM, address, size))
		raw_fallocate(ob_posix_ram_fd(host, address - ram),
			      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(address - ram),
			      (off_t)size);
	else if (ob_posix_region_contains(host, OB_REGION_STACKS, address, size) ||
		 ob_posix_region_contains(host, OB_REGION_PAGES, address, size))
		madvise((void *)address, size, MADV_DONTNEED);
}

void ob_posix_regions_release(struct ob_host *host)
{
	ob_posix_headroom_give_up(host);
	for (int i = 0; i < OB_REGIONS; i++) {
		struct ob_posix_region *r = &host->regions[i];

		if (!r->size)
			continue;
		munmap((void *)r->address, r->size);
		if (i == OB_REGION_RAM)
			ob_posix_ram_release(host);
		*r = (struct ob_posix_region){ 0 };
	}
	host->headroom.begun = false;
	ob_posix_shadow_give_up(host);
	ob_posix_closed_forget(host);
	ob_posix_pages_forget(host);
	ob_posix_pieces_forget(host);
}

void ob_host_regions_release(struct ob_host *host)
{
	ob_posix_spaces_stop(host);
	if (ob_platform_has_left_behind(host))
		return;
	ob_posix_regions_release(host);
	ob_posix_huge_release(host);
}

void ob_posix_regions_forked(struct ob_host *host)
{
	ob_posix_closed_forget(host);
	ob_posix_ram_drop(host);
	for (int i = 0; i < OB_REGIONS; i++) {
		struct ob_posix_region *r = &host->regions[i];

		if (r->size && ob_posix_is_window(i))
			munmap((void *)r->address, r->size);
		if (r->size && i == OB_REGION_RAM) {
			ob_posix_pages_unmap_new(host);
			ob_posix_ram_close(host);
		}
		*r = (struct ob_posix_region){ 0 };
	}
	ob_posix_pages_forget(host);
	ob_posix_pieces_forget(host);
	ob_posix_shadow_give_up(host);
	host->place = 0;
	host->left_behind = false;
	ob_posix_huge_forked(host);
}
