/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files that check and load a kernel image share. */
#ifndef OUTBOARD_LIB_IMAGE_LOAD_H
#define OUTBOARD_LIB_IMAGE_LOAD_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image.h"

#define PAGE_BYTES 4096ull

/* A table of relocations. */
struct ob_image_table {
	uint64_t address;		/* as linked */
	uint64_t size;
};

/* An image that is being loaded. */
struct ob_loading {
	struct ob_platform_file file;
	const Elf64_Ehdr *header;
	const Elf64_Phdr *segments;
	uint64_t first, end;		/* addresses as linked, of whole pages */
	uint64_t distance;		/* from the address as linked to the address in memory */
	struct ob_image_table rela, relr;
	uint32_t interface;
	bool has_interface;
	bool renews;			/* only the data of a loaded image */
	struct ob_image *image;
	char *reason;
	size_t reason_size;
};

static inline uint64_t ob_page_of(uint64_t address)
{
	return address & ~(PAGE_BYTES - 1);
}

static inline uint64_t ob_page_end(uint64_t address)
{
	return ob_page_of(address + PAGE_BYTES - 1);
}

/* image_check.c: stores why the image is refused. Returns false, for the callers. */
__attribute__((format(printf, 2, 3)))
bool ob_image_refuse(struct ob_loading *loading, const char *format, ...);

/* Checks everything but the relocations that only a moved image needs. */
bool ob_image_check(struct ob_loading *loading);
/* Checks these relocations, if the image is moved. */
bool ob_image_check_relocated(struct ob_loading *loading);

/* For a checked image: the segment that contains the range in memory, or in the file. */
const Elf64_Phdr *ob_image_segment_of(const struct ob_loading *loading, uint64_t address,
				      uint64_t size, bool in_file);
const Elf64_Rela *ob_image_rela_of(const struct ob_loading *loading, uint64_t *count);
/* Calls the function for the address, as linked, of each relocation of DT_RELR. */
bool ob_image_visit_relr(struct ob_loading *loading, bool visit(struct ob_loading *, uint64_t));

/* image_load.c: checks and loads the image whose file is open. 0 or an error; see `reason`. */
int ob_image_load(struct ob_loading *loading);
/* Calls the entry point. 0 or -ENOEXEC. */
int ob_image_enter(struct ob_loading *loading);
/* Maps and relocates the data once more. 0 or an error. */
int ob_image_load_data(struct ob_loading *loading);

#endif
