/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files about memory share: address space, regions, RAM, windows, pages of a snapshot. */
#ifndef OUTBOARD_POSIX_REGIONS_H
#define OUTBOARD_POSIX_REGIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "internal.h"

static inline bool ob_posix_is_page_range(uint64_t address, uint64_t size)
{
	return size && address % PAGE_BYTES == 0 && size % PAGE_BYTES == 0;
}

/* The host's protection for one of the kernel's (enum ob_protection). */
static inline int ob_posix_protection(uint32_t protection)
{
	return (protection & OB_PROTECTION_READ ? PROT_READ : 0) |
	       (protection & OB_PROTECTION_WRITE ? PROT_WRITE : 0) |
	       (protection & OB_PROTECTION_EXECUTE ? PROT_EXEC : 0);
}

/* address_space.c: address space without access. Flags are those of mmap(). */
void *ob_posix_reservation(uint64_t address, uint64_t size, int extra_flags);
/* False: the range is not free. */
bool ob_posix_reserve_exactly(uint64_t address, uint64_t size);
/* At the next fixed address, or at one of the operating system's choice. 0 or -ENOMEM. */
int ob_posix_reserve_placed(struct ob_host *host, uint64_t size, uint64_t *address);
/* Within reach of the kernel's text. 0 or -ENOMEM. */
int ob_posix_reserve_near_text(struct ob_host *host, uint64_t size, uint64_t *address);

/* False also if the region is not reserved. */
static inline bool ob_posix_region_contains(struct ob_host *host, enum ob_region region,
					    uint64_t address, uint64_t size)
{
	const struct ob_posix_region *r = &host->regions[region];

	return address >= r->address && address - r->address <= r->size &&
	       size <= r->size - (address - r->address);
}

/* regions.c */
bool ob_posix_is_window(enum ob_region region);
/* As ob_host_regions_release(), before a boot goes on: what was prepared for it stays. */
void ob_posix_regions_release(struct ob_host *host);

/* ram.c: puts a memfd of the region's size behind the reserved range. 0 or -ENOMEM. */
int ob_posix_ram_populate(struct ob_host *host, const struct ob_posix_region *ram);
/* The file that has this page of RAM. */
int ob_posix_ram_fd(struct ob_host *host, uint64_t physical);
void ob_posix_ram_close(struct ob_host *host);
/* Empties the file if a zygote has it, for the next region of RAM; else closes it. */
void ob_posix_ram_release(struct ob_host *host);
/* Makes the file before there is a region for it; closes such a file. False: the host refuses. */
bool ob_posix_ram_prepare(struct ob_host *host);
void ob_posix_ram_drop(struct ob_host *host);

/* shadow.c: one host at a time has it. -EEXIST, -EBUSY or -ENOMEM. */
int ob_posix_shadow_take(struct ob_host *host, uint64_t size, uint64_t address);
void ob_posix_shadow_give_up(struct ob_host *host);

/* headroom.c: before the first mapping of a window, and after the headroom was given up. */
void ob_posix_headroom_begin(struct ob_host *host);
void ob_posix_headroom_keep(struct ob_host *host);

/* snapshot/pages.c: tests, sets and clears the marks of pages that are a snapshot's. */
bool ob_posix_pages_contain(struct ob_host *host, uint64_t physical);
void ob_posix_pages_note(struct ob_host *host, uint64_t physical, uint64_t size, bool set);
/* Notes pages that are about to be mapped anew. Unmaps all that were noted, in a fork()ed child. */
void ob_posix_pages_note_new(struct ob_host *host, uint64_t physical, uint64_t size);
void ob_posix_pages_unmap_new(struct ob_host *host);
/* Copies the pages of the range that are a snapshot's to the memfd. 0 or -ENOMEM. */
int ob_posix_pages_share(struct ob_host *host, uint64_t physical, uint64_t size);
/* Forgets all of them. */
void ob_posix_pages_forget(struct ob_host *host);

/*
 * snapshot/pieces.c: prepares a range of the window for a change. `keep`: copies its contents to
 * RAM. 0, or -ENOMEM as ob_host_map().
 */
int ob_posix_pieces_settle(struct ob_host *host, uint64_t address, uint64_t size, bool keep);
/* Forgets all pieces. */
void ob_posix_pieces_forget(struct ob_host *host);

#endif
