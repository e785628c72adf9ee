/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How any host loads a kernel image (tables.h): checks it, puts it into memory, relocates it, calls
 * its entry point, and makes its data new after a halt. hypercall/loader/ has the functions. They
 * need no C library but what compilers call: memcmp(), memcpy(), memmove() and memset(). The host
 * has the file's bytes, and makes memory by two functions.
 *
 *   check -> the host chooses `distance` -> load -> enter -> ... halt -> check -> renew -> ...
 *
 * The file can be anything: check comes before any of its bytes is used as an address or run. The
 * addresses in it are those that it was linked for. If they are free, `distance` is 0 and almost
 * nothing needs relocation.
 */
#ifndef OUTBOARD_LOADER_H
#define OUTBOARD_LOADER_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <outboard/tables.h>

#define OB_LOADER_PAGE 4096ull

/* A part of an image in memory. `protection`: enum ob_protection. */
struct ob_loader_segment {
	uint64_t address;
	uint64_t size;			/* in memory; zeroes follow the bytes of the file */
	uint64_t offset;		/* in the file */
	uint64_t file_size;
	uint32_t protection;
	uint32_t reserved;
};

/*
 * Memory of the host. `map` makes a segment that replaces what was there, the file's bytes and
 * zeroes; `protect` changes whole pages of one. Both return 0 or a negative errno value.
 */
struct ob_loader_memory {
	int (*map)(void *context, const struct ob_loader_segment *segment);
	int (*protect)(void *context, uint64_t address, uint64_t size, uint32_t protection);
};

/* A table of relocations. */
struct ob_loader_table {
	uint64_t address;		/* as linked */
	uint64_t size;
};

struct ob_loader {
	/* The caller's: all of the file, aligned to 8 bytes. */
	const void *bytes;
	uint64_t size;
	const struct ob_loader_memory *memory;
	void *context;			/* of the two functions */
	uint32_t thread_block;		/* bytes of each thread's block that this host has */

	/* Set by ob_loader_check(). */
	const Elf64_Ehdr *header;
	const Elf64_Phdr *segments;
	uint64_t first, end;		/* addresses as linked, of whole pages */
	struct ob_loader_table rela, relr;
	const void *id;			/* build id; NULL: there is none */
	uint32_t id_size;
	uint32_t interface;
	bool has_interface;
	uint32_t thread_block_used;	/* bytes */

	/* The caller's, after the check: from the address as linked to the one in memory. */
	uint64_t distance;

	/* Set by ob_loader_enter(); the caller's for ob_loader_renew(). */
	const struct ob_upcalls *upcalls;

	/* Why the image is refused, one line. */
	char reason[160];
};

/* False: this is no kernel image that can be loaded; `reason` says why. */
bool ob_loader_check(struct ob_loader *loader);

/* Puts a checked image into memory. -ENOEXEC, and a reason; or an error of the host's functions. */
int ob_loader_load(struct ob_loader *loader);

/*
 * Calls the entry point: stores the kernel's upcalls. -ENOEXEC, and a reason. The arguments are
 * those of ob_image_entry.
 */
int ob_loader_enter(struct ob_loader *loader, const struct ob_hypercalls *table,
		    struct ob_host *host, int64_t thread_block);

/*
 * Makes the data of a loaded image as they were at first, but for what tables.h keeps. The bytes
 * were checked again, and the kernel has halted and released its memory. Results as of load.
 */
int ob_loader_renew(struct ob_loader *loader);

static inline uint64_t ob_loader_page_of(uint64_t address)
{
	return address & ~(OB_LOADER_PAGE - 1);
}

static inline uint64_t ob_loader_page_end(uint64_t address)
{
	return ob_loader_page_of(address + OB_LOADER_PAGE - 1);
}

#endif
