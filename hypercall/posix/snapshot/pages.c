// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages of RAM that came from a snapshot.
 *
 * At first they are private mappings of the snapshot file. A page moves to the memfd in two ways.
 * When the kernel allocates the page for something new, the contents are dropped
 * (ob_host_ram_renew). When a window is to show the page, the contents are copied
 * (ob_posix_pages_share): a thread that writes to it meanwhile faults and tries again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "regions.h"
#include "raw.h"

static bool has_mark(const uint64_t *words, uint64_t page)
{
	return page / 64 < OB_SNAPSHOT_WORDS &&
	       __atomic_load_n(&words[page / 64], __ATOMIC_RELAXED) >> page % 64 & 1;
}

bool ob_posix_pages_contain(struct ob_host *host, uint64_t physical)
{
	return has_mark(host->pages.words, physical / PAGE_BYTES);
}

static void mark(uint64_t *words, uint64_t physical, uint64_t size, bool set)
{
	uint64_t page = physical / PAGE_BYTES, end = (physical + size) / PAGE_BYTES, next;

	for (; page < end && page / 64 < OB_SNAPSHOT_WORDS; page = next) {
		uint64_t *word = &words[page / 64], bits = ~0ull << page % 64;

		next = (page / 64 + 1) * 64;
		if (next > end)
			bits &= ~0ull >> (next - end);
		if (set)
			__atomic_fetch_or(word, bits, __ATOMIC_SEQ_CST);
		else
			__atomic_fetch_and(word, ~bits, __ATOMIC_SEQ_CST);
	}
}

void ob_posix_pages_note(struct ob_host *host, uint64_t physical, uint64_t size, bool set)
{
	mark(host->pages.words, physical, size, set);
}

void ob_posix_pages_note_new(struct ob_host *host, uint64_t physical, uint64_t size)
{
	mark(host->pages.new, physical, size, true);
}

void ob_posix_pages_unmap_new(struct ob_host *host)
{
	uint64_t most = OB_SNAPSHOT_BYTES / PAGE_BYTES, page = 0, end;

	for (; page < most; page = end) {
		bool is_new = has_mark(host->pages.new, page);

		for (end = page + 1; end < most && has_mark(host->pages.new, end) == is_new; end++)
			;
		if (is_new)
			munmap((char *)host->regions[OB_REGION_RAM].address + page * PAGE_BYTES,
			       (end - page) * PAGE_BYTES);
	}
}

static bool has_snapshot_pages(struct ob_host *host, uint64_t physical, uint64_t size)
{
	for (uint64_t end = physical + size; physical < end; physical += PAGE_BYTES)
		if (ob_posix_pages_contain(host, physical))
			return true;
	return false;
}

/* Maps pages of the memfd at their place in RAM. */
static bool map_ram(struct ob_host *host, uint64_t physical, uint64_t size)
{
	void *address = (void *)(host->regions[OB_REGION_RAM].address + physical);

	ob_posix_pages_note_new(host, physical, size);
	return mmap(address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
		    host->ram.fd, (off_t)physical) != MAP_FAILED;
}

/* If the host has no room for another mapping, the pages stay. ob_host_map tries again. */
void ob_host_ram_renew(struct ob_host *host, uint64_t address, uint64_t size)
{
	uint64_t physical = address - host->regions[OB_REGION_RAM].address;

	if (has_snapshot_pages(host, physical, size) && map_ram(host, physical, size))
		ob_posix_pages_note(host, physical, size, false);
}

/* Copies the contents. The caller makes sure that no other thread does the same. */
static int share_page(struct ob_host *host, uint64_t physical)
{
	char *address = (char *)host->regions[OB_REGION_RAM].address + physical;

	if (mprotect(address, PAGE_BYTES, PROT_READ))
		return -ENOMEM;
	if (raw_pwrite(host->ram.fd, address, PAGE_BYTES, (off_t)physical) != (ssize_t)PAGE_BYTES ||
	    !map_ram(host, physical, PAGE_BYTES)) {
		/* Undo: threads may be waiting to write, and the next owner may expect zeroes. */
		raw_fallocate(host->ram.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      (off_t)physical, PAGE_BYTES);
		while (mprotect(address, PAGE_BYTES, PROT_READ | PROT_WRITE))
			sched_yield();
		return -ENOMEM;
	}
	ob_posix_pages_note(host, physical, PAGE_BYTES, false);
	return 0;
}

int ob_posix_pages_share(struct ob_host *host, uint64_t physical, uint64_t size)
{
	int error = 0;

	for (uint64_t end = physical + size; physical < end && !error; physical += PAGE_BYTES)
		if (ob_posix_pages_contain(host, physical))
			error = share_page(host, physical);
	return error;
}

/* RAM is accessible at all other times. */
bool ob_posix_pages_fault_is_passing(struct ob_host *host, uint64_t address)
{
	return ob_posix_region_contains(host, OB_REGION_RAM, address, 1);
}

void ob_posix_pages_forget(struct ob_host *host)
{
	memset(&host->pages, 0, sizeof(host->pages));
}
