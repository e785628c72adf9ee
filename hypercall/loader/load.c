// SPDX-License-Identifier: GPL-2.0-only
/*
 * Puts a checked image into memory.
 *
 *   mapped -> relocated -> protected -> entered ... halted -> data mapped and relocated again
 */
#include <asm/errno.h>

#include "internal.h"

static uint32_t protection_of(const Elf64_Phdr *segment)
{
	return (segment->p_flags & PF_R ? OB_PROTECTION_READ : 0) |
	       (segment->p_flags & PF_W ? OB_PROTECTION_WRITE : 0) |
	       (segment->p_flags & PF_X ? OB_PROTECTION_EXECUTE : 0);
}

/* A segment that relocations change is writable until then. */
static bool is_changed(const struct ob_loader *loader, const Elf64_Phdr *segment)
{
	return loader->distance && !(segment->p_flags & (PF_W | PF_X));
}

/* Maps a part of the segment: `first` and `end` are addresses in memory. */
static int map_part(const struct ob_loader *loader, const Elf64_Phdr *segment, uint64_t first,
		    uint64_t end)
{
	uint64_t skipped = first - loader->distance - segment->p_vaddr;
	uint64_t in_file = segment->p_filesz > skipped ? segment->p_filesz - skipped : 0;
	struct ob_loader_segment new = {
		.address = first,
		.size = end - first,
		.offset = segment->p_offset + skipped,
		.file_size = in_file < end - first ? in_file : end - first,
		.protection = protection_of(segment),
	};

	if (is_changed(loader, segment))
		new.protection |= OB_PROTECTION_WRITE;
	return first < end ? loader->memory->map(loader->context, &new) : 0;
}

static int map_segment(const struct ob_loader *loader, const Elf64_Phdr *segment)
{
	uint64_t first = segment->p_vaddr + loader->distance;

	return map_part(loader, segment, first, first + segment->p_memsz);
}

static int protect_segment(const struct ob_loader *loader, const Elf64_Phdr *segment)
{
	uint64_t first = ob_loader_page_of(segment->p_vaddr),
		 end = ob_loader_page_end(segment->p_vaddr + segment->p_memsz);

	if (!is_changed(loader, segment))
		return 0;
	return loader->memory->protect(loader->context, first + loader->distance, end - first,
				       protection_of(segment));
}

static int for_each_load_segment(const struct ob_loader *loader,
				 int function(const struct ob_loader *, const Elf64_Phdr *))
{
	int error = 0;

	for (int i = 0; i < loader->header->e_phnum && !error; i++)
		if (loader->segments[i].p_type == PT_LOAD)
			error = function(loader, &loader->segments[i]);
	return error;
}

/* When only the data are new, everything else is relocated already. */
static bool is_new(const struct ob_loader *loader, bool only_data, uint64_t address)
{
	const Elf64_Phdr *segment;

	if (!only_data)
		return true;
	segment = ob_loader_segment_of(loader, address, 8, false);
	address += loader->distance;
	return segment->p_flags & PF_W && (address < (uint64_t)loader->upcalls->kept ||
					   address >= (uint64_t)loader->upcalls->kept_end);
}

static bool apply_relr(struct ob_loader *loader, uint64_t address, void *only_data)
{
	if (is_new(loader, *(const bool *)only_data, address))
		*(uint64_t *)(address + loader->distance) += loader->distance;
	return true;
}

static void relocate(struct ob_loader *loader, bool only_data)
{
	uint64_t count;
	const Elf64_Rela *entries = ob_loader_rela_of(loader, &count);

	for (uint64_t i = 0; i < count; i++) {
		uint64_t *place = (uint64_t *)(entries[i].r_offset + loader->distance);

		if (is_new(loader, only_data, entries[i].r_offset))
			*place = loader->distance + (uint64_t)entries[i].r_addend;
	}
	if (loader->distance)
		ob_loader_visit_relr(loader, apply_relr, &only_data);
}

int ob_loader_load(struct ob_loader *loader)
{
	int error;

	if (!ob_loader_check_moved(loader))
		return -ENOEXEC;
	error = for_each_load_segment(loader, map_segment);
	if (error)
		return error;
	relocate(loader, false);
	return for_each_load_segment(loader, protect_segment);
}

/* The functions that every kernel of this interface version has. Later ones may be absent. */
#define LEAST_UPCALLS offsetof(struct ob_upcalls, virtio_add)

int ob_loader_enter(struct ob_loader *loader, const struct ob_hypercalls *table,
		    struct ob_host *host, int64_t thread_block)
{
	ob_image_entry *entry = (ob_image_entry *)(loader->header->e_entry + loader->distance);
	const char *reason = NULL;

	loader->upcalls = entry(table, host, thread_block, &reason);
	if (loader->upcalls && loader->upcalls->size >= LEAST_UPCALLS)
		return 0;
	ob_loader_refuse(loader, reason ?: "its tables do not fit to those of this host");
	return -ENOEXEC;
}

static int renew_segment(const struct ob_loader *loader, const Elf64_Phdr *segment)
{
	uint64_t first = segment->p_vaddr + loader->distance, end = first + segment->p_memsz;
	uint64_t kept = (uint64_t)loader->upcalls->kept;
	uint64_t kept_end = (uint64_t)loader->upcalls->kept_end;
	int error;

	if (!(segment->p_flags & PF_W))
		return 0;
	if (kept_end <= first || kept >= end)
		return map_part(loader, segment, first, end);
	error = map_part(loader, segment, first, kept);
	return error ? error : map_part(loader, segment, kept_end, end);
}

int ob_loader_renew(struct ob_loader *loader)
{
	int error;

	if (!ob_loader_check_moved(loader))
		return -ENOEXEC;
	error = for_each_load_segment(loader, renew_segment);
	if (!error)
		relocate(loader, true);
	return error;
}
