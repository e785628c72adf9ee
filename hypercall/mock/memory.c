// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's properties, and its memory: ranges of the address space, which become accessible when
 * the kernel commits them or extends RAM.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "internal.h"

#define ALIGNMENT (16ull << 20)
#define STACKS_BYTES (64ull << 20)
#define WINDOW_BYTES (256ull << 20)

void ob_host_info(struct ob_host *host, struct ob_info *info)
{
	uint64_t window = host->options.mapping ? WINDOW_BYTES : 0;

	*info = (struct ob_info) {
		.features = (host->options.pinned ? OB_HOST_RAM_IS_PINNED : 0) |
			    (host->options.executable ? OB_HOST_RAM_IS_EXECUTABLE : 0),
		.memory = host->options.memory,
		.processors = 1,
		.windows = {
			[OB_REGION_VMALLOC] = window,
			[OB_REGION_MODULES] = window,
			[OB_REGION_CLIENT] = window,
			[OB_REGION_STACKS] = STACKS_BYTES,
		},
		.space_end = host->options.program ? MOCK_SPACE_END : 0,
	};
}

/* Windows, and RAM that they show. */
static int share(struct ob_host *host, enum ob_region region, uint64_t address, uint64_t size)
{
	switch (region) {
	case OB_REGION_RAM:
		return mock_ram_share(host, address, size);
	case OB_REGION_VMALLOC:
	case OB_REGION_MODULES:
	case OB_REGION_CLIENT:
		return mock_window_begin(host, region, address, size);
	default:
		return 0;
	}
}

/* Reserves more than `size`, so that the range contains an aligned address. */
int ob_host_region_reserve(struct ob_host *host, enum ob_region region, uint64_t size,
			   uint64_t *address)
{
	void *start = mmap(NULL, size + ALIGNMENT, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		return -ENOMEM;
	host->regions[region] = (struct mock_region){ (uint64_t)start, size + ALIGNMENT };
	*address = ((uint64_t)start + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
	if (region == OB_REGION_RAM)
		host->ram = (void *)*address;
	if (host->options.mapping && share(host, region, *address, size))
		return -ENOMEM;
	if (host->options.place)
		*address = host->options.place(region, *address);
	return 0;
}

static int make_usable(uint64_t address, uint64_t size, int more)
{
	return mprotect((void *)address, size, PROT_READ | PROT_WRITE | more) ? -ENOMEM : 0;
}

int ob_host_region_commit(struct ob_host *host, uint64_t address, uint64_t size)
{
	(void)host;
	return make_usable(address, size, 0);
}

int ob_host_ram_extend(struct ob_host *host, uint64_t address, uint64_t size)
{
	struct mock_counts *counts = &host->counts;
	uint64_t most = host->options.memory_given;

	if (most && counts->extended + size > most)
		return -ENOMEM;
	if (counts->extended && size > counts->longest_extension)
		counts->longest_extension = size;
	counts->extended += size;
	return make_usable(address, size, host->options.executable ? PROT_EXEC : 0);
}

static bool is_ram(const struct ob_host *host, uint64_t address)
{
	const struct mock_region *ram = &host->regions[OB_REGION_RAM];

	return address >= ram->address && address < ram->address + ram->size;
}

void ob_host_region_discard(struct ob_host *host, uint64_t address, uint64_t size)
{
	if (is_ram(host, address))
		host->counts.discarded += size;
	madvise((void *)address, size, MADV_DONTNEED);
}

void ob_host_regions_release(struct ob_host *host)
{
	mock_device_vcpus_stopped(host);
	mock_windows_end(host);
	for (int i = 0; i < OB_REGIONS; i++) {
		if (host->regions[i].size)
			munmap((void *)host->regions[i].address, host->regions[i].size);
		host->regions[i] = (struct mock_region){ 0 };
	}
}
