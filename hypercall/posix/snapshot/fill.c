// SPDX-License-Identifier: GPL-2.0-only
/* Reserves the regions of a snapshot, and fills RAM, PAGES and the image from its file. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "regions.h"
#include "raw.h"

int ob_posix_regions_reserve(struct ob_host *host, const struct ob_posix_region regions[])
{
	for (int i = 0; i < OB_REGIONS; i++) {
		const struct ob_posix_region *r = &regions[i];
		int error = 0;

		if (!r->size)
			continue;
		if (!ob_posix_reserve_exactly(r->address, r->size)) {
			ob_posix_regions_release(host);
			return -EBUSY;
		}
		if (i == OB_REGION_RAM)
			error = ob_posix_ram_populate(host, r);
		if (error) {
			munmap((void *)r->address, r->size);
			ob_posix_regions_release(host);
			return error;
		}
		host->regions[i] = *r;
	}
	return 0;
}

static int fill_private(uint64_t address, uint64_t size, int fd, uint64_t offset)
{
	void *got = mmap((void *)address, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd,
			 (off_t)offset);

	return got == MAP_FAILED ? -errno : 0;
}

/* Parts of pages, which the program's own data share. */
static int fill_bytes(uint64_t address, uint64_t size, int fd, uint64_t offset)
{
	return raw_pread(fd, (void *)address, size, (off_t)offset) == (ssize_t)size ? 0 : -EIO;
}

static int fill_shared(struct ob_host *host, uint64_t physical, uint64_t size, int fd,
		       uint64_t offset)
{
	void *pages = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, (off_t)offset);
	bool done;

	if (pages == MAP_FAILED)
		return -errno;
	done = raw_pwrite(host->ram.fd, pages, size, (off_t)physical) == (ssize_t)size;
	munmap(pages, size);
	return done ? 0 : -ENOMEM;
}

int ob_posix_snapshot_fill(struct ob_host *host, uint64_t address, uint64_t size, int fd,
			   uint64_t offset, enum ob_snapshot_kind kind)
{
	uint64_t physical = address - host->regions[OB_REGION_RAM].address;
	bool in_ram = ob_posix_region_contains(host, OB_REGION_RAM, address, size);
	int error;

	if (kind == OB_SNAPSHOT_SHARED)
		return in_ram ? fill_shared(host, physical, size, fd, offset) : -EINVAL;
	if (!ob_posix_is_page_range(address, size))
		return fill_bytes(address, size, fd, offset);
	error = fill_private(address, size, fd, offset);
	if (!error && in_ram)
		ob_posix_pages_note(host, physical, size, true);
	return error;
}

void ob_posix_snapshot_filled(struct ob_host *host)
{
	for (int i = 0; i < OB_REGIONS; i++)
		if (host->regions[i].size && !ob_posix_is_window(i))
			madvise((void *)host->regions[i].address, host->regions[i].size,
				MADV_DONTFORK);
}
