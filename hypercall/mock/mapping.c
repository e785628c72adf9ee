// SPDX-License-Identifier: GPL-2.0-only
/*
 * Windows, for tests that want them: RAM is a file, whose pages a window shows at a second place.
 * This platform handles no faults, so clients cannot use what mmap() gives them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

int mock_window_begin(struct ob_host *host, enum ob_region region, uint64_t address, uint64_t size)
{
	struct mock_window *window = &host->windows[region];

	*window = (struct mock_window){ address, size, calloc(size / PAGE_BYTES, 1) };
	return window->shown ? 0 : -ENOMEM;
}

void mock_windows_end(struct ob_host *host)
{
	for (int i = 0; i < OB_REGIONS; i++) {
		free(host->windows[i].shown);
		host->windows[i] = (struct mock_window){ 0 };
	}
	host->counts.mapped = 0;
	if (host->ram_file)
		close(host->ram_file);
	host->ram_file = 0;
}

int mock_ram_share(struct ob_host *host, uint64_t address, uint64_t size)
{
	int file = memfd_create("ram", MFD_CLOEXEC);

	if (file < 0)
		return -ENOMEM;
	host->ram_file = file;
	if (ftruncate(file, (off_t)size) ||
	    mmap((void *)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
		return -ENOMEM;
	return 0;
}

static struct mock_window *window_of(struct ob_host *host, uint64_t address, uint64_t size)
{
	for (int i = 0; i < OB_REGIONS; i++) {
		struct mock_window *window = &host->windows[i];

		if (window->shown && address >= window->address &&
		    address - window->address <= window->size &&
		    size <= window->size - (address - window->address))
			return window;
	}
	return NULL;
}

/* Counts the bytes that windows show. */
static void note(struct ob_host *host, struct mock_window *window, uint64_t address, uint64_t size,
		 bool shown)
{
	uint64_t page = (address - window->address) / PAGE_BYTES, end = page + size / PAGE_BYTES;

	for (; page < end; page++) {
		if (window->shown[page] && !shown)
			host->counts.mapped -= PAGE_BYTES;
		else if (!window->shown[page] && shown)
			host->counts.mapped += PAGE_BYTES;
		window->shown[page] = shown;
	}
}

static int protection_of(uint32_t protection)
{
	return (protection & OB_PROTECTION_READ ? PROT_READ : 0) |
	       (protection & OB_PROTECTION_WRITE ? PROT_WRITE : 0) |
	       (protection & OB_PROTECTION_EXECUTE ? PROT_EXEC : 0);
}

int ob_host_map(struct ob_host *host, uint64_t address, uint64_t physical, uint64_t size,
		uint32_t protection)
{
	struct mock_window *window = window_of(host, address, size);

	if (!window || physical > host->counts.extended ||
	    size > host->counts.extended - physical)
		return -EINVAL;
	if (mmap((void *)address, size, protection_of(protection), MAP_SHARED | MAP_FIXED,
		 host->ram_file, (off_t)physical) == MAP_FAILED)
		return -ENOMEM;
	note(host, window, address, size, true);
	return 0;
}

int ob_host_unmap(struct ob_host *host, uint64_t address, uint64_t size)
{
	struct mock_window *window = window_of(host, address, size);

	if (!window)
		return -EINVAL;
	if (mmap((void *)address, size, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return -ENOMEM;
	note(host, window, address, size, false);
	return 0;
}

/* A host with several processors would send one interrupt for all of them here. */
int ob_host_unmap_many(struct ob_host *host, const struct ob_range *ranges, uint32_t count)
{
	int error = 0;

	if (count > host->counts.most_ranges)
		host->counts.most_ranges = count;
	for (uint32_t i = 0; i < count; i++) {
		int failed = ob_host_unmap(host, ranges[i].address, ranges[i].size);

		error = error ? error : failed;
	}
	return error;
}
