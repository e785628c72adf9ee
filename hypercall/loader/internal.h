/* SPDX-License-Identifier: GPL-2.0-only */
/* The two files of the loader share these functions. The image was checked before. */
#ifndef OUTBOARD_LOADER_INTERNAL_H
#define OUTBOARD_LOADER_INTERNAL_H

#include <outboard/loader.h>

/* check.c: stores the reason. Returns false, for the callers. */
bool ob_loader_refuse(struct ob_loader *loader, const char *reason);

/* Checks the relocations that only a moved image needs. There are tens of thousands. */
bool ob_loader_check_moved(struct ob_loader *loader);

/* The segment that contains the range in memory, or in the file; NULL: none does. */
const Elf64_Phdr *ob_loader_segment_of(const struct ob_loader *loader, uint64_t address,
				       uint64_t size, bool in_file);
const Elf64_Rela *ob_loader_rela_of(const struct ob_loader *loader, uint64_t *count);

/* Calls the function for the address, as linked, of each relocation of DT_RELR. */
typedef bool ob_loader_visit(struct ob_loader *loader, uint64_t address, void *context);
bool ob_loader_visit_relr(struct ob_loader *loader, ob_loader_visit *visit, void *context);

#endif
