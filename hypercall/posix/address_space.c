// SPDX-License-Identifier: GPL-2.0-only
/*
 * Finds address space for the regions of a kernel, and reserves it without access.
 *
 * Snapshots need regions at addresses that are free in the next process, too: such a kernel gets
 * fixed addresses in a range that programs do not use. All other kernels take what the host gives.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "regions.h"

#define REGION_ALIGNMENT (16ull << 20)
/* 1 GB, less what the kernel's own image may occupy. */
#define MODULES_REACH ((1ull << 30) - (64ull << 20))

/*
 * Regions are placed in this range, which is free in any program. The shadows of sanitizers are
 * below, also that of a kernel with KASAN (KASAN_SHADOW_OFFSET, 32 to 48 TB). The host's own
 * choices are above.
 */
#define PLACE_FIRST (48ull << 40)
#define PLACE_RANGE (16ull << 40)
#define PLACE_TRIES 8

void *ob_posix_reservation(uint64_t address, uint64_t size, int extra_flags)
{
	return mmap((void *)address, size, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra_flags, -1, 0);
}

/* Reserves an aligned range anywhere: reserves more than is needed and trims both ends. */
static int reserve_anywhere(uint64_t size, uint64_t *address)
{
	void *start = ob_posix_reservation(0, size + REGION_ALIGNMENT, 0);
	uint64_t first, base, last;

	if (start == MAP_FAILED)
		return -ENOMEM;
	first = (uint64_t)start;
	last = first + size + REGION_ALIGNMENT;
	base = (first + REGION_ALIGNMENT - 1) & ~(REGION_ALIGNMENT - 1);
	if (base > first)
		munmap(start, base - first);
	if (last > base + size)
		munmap((void *)(base + size), last - (base + size));
	*address = base;
	return 0;
}

void ob_posix_choose_place(struct ob_host *host)
{
	uint64_t random;

	if (!ob_host_random(host, &random, sizeof(random)))
		host->place = PLACE_FIRST + (random % PLACE_RANGE & ~(REGION_ALIGNMENT - 1));
}

bool ob_posix_reserve_exactly(uint64_t address, uint64_t size)
{
	void *got = ob_posix_reservation(address, size, MAP_FIXED_NOREPLACE);

	if (got == MAP_FAILED)
		return false;
	if ((uint64_t)got == address)
		return true;
	/* Linux before 4.17 treats the address as a hint only. */
	munmap(got, size);
	return false;
}

/* Reserves at the next fixed address if the host has one, else anywhere. */
int ob_posix_reserve_placed(struct ob_host *host, uint64_t size, uint64_t *address)
{
	for (int tries = 0; host->place && tries < PLACE_TRIES; tries++) {
		if (ob_posix_reserve_exactly(host->place, size)) {
			*address = host->place;
			host->place += (size + 2 * REGION_ALIGNMENT - 1) & ~(REGION_ALIGNMENT - 1);
			return 0;
		}
		ob_posix_choose_place(host);
	}
	return reserve_anywhere(size, address);
}

/*
 * Reserves a range whose farthest byte is within MODULES_REACH of the kernel's text. Tries below
 * the text first: the heap lies above the image of a program.
 */
int ob_posix_reserve_near_text(struct ob_host *host, uint64_t size, uint64_t *address)
{
	uint64_t text = ob_posix_text(host) & ~(REGION_ALIGNMENT - 1);
	uint64_t distance;

	if (size > MODULES_REACH - REGION_ALIGNMENT)
		return -ENOMEM;
	for (distance = REGION_ALIGNMENT; distance <= MODULES_REACH; distance += REGION_ALIGNMENT) {
		uint64_t span = size + distance;

		if (span <= MODULES_REACH && text > span) {
			*address = (text - span) & ~(REGION_ALIGNMENT - 1);
			if (ob_posix_reserve_exactly(*address, size))
				return 0;
		}
	}
	for (distance = MODULES_REACH - REGION_ALIGNMENT; distance >= size;
	     distance -= REGION_ALIGNMENT) {
		*address = (text + distance - size) & ~(REGION_ALIGNMENT - 1);
		if (ob_posix_reserve_exactly(*address, size))
			return 0;
	}
	return -ENOMEM;
}
