// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads a kernel image into memory.
 *
 *   checked -> reserved -> mapped -> relocated -> protected -> entered
 *
 * The addresses in the file are those that it was linked for. If they are free, almost nothing
 * needs relocation. After a halt the writable data are mapped and relocated again.
 */
#include <elf.h>
#include <errno.h>

#include "image_load.h"

static uint32_t protection_of(const Elf64_Phdr *segment)
{
	return (segment->p_flags & PF_R ? OB_PROTECTION_READ : 0) |
	       (segment->p_flags & PF_W ? OB_PROTECTION_WRITE : 0) |
	       (segment->p_flags & PF_X ? OB_PROTECTION_EXECUTE : 0);
}

/* A segment that relocations change is writable until then. */
static bool is_changed(const struct ob_loading *loading, const Elf64_Phdr *segment)
{
	return loading->distance && !(segment->p_flags & (PF_W | PF_X));
}

/* Maps a part of the segment: `first` and `end` are addresses in memory. */
static int map_part(const struct ob_loading *loading, const Elf64_Phdr *segment, uint64_t first,
		    uint64_t end)
{
	uint64_t skipped = first - loading->distance - segment->p_vaddr;
	uint64_t in_file = segment->p_filesz > skipped ? segment->p_filesz - skipped : 0;
	struct ob_platform_segment new = {
		.address = first,
		.size = end - first,
		.offset = segment->p_offset + skipped,
		.file_size = in_file < end - first ? in_file : end - first,
		.protection = protection_of(segment),
	};

	if (is_changed(loading, segment))
		new.protection |= OB_PROTECTION_WRITE;
	return first < end ? ob_platform_image_map(&loading->file, &new) : 0;
}

static int map_segment(const struct ob_loading *loading, const Elf64_Phdr *segment)
{
	uint64_t first = segment->p_vaddr + loading->distance;

	return map_part(loading, segment, first, first + segment->p_memsz);
}

static int protect_segment(const struct ob_loading *loading, const Elf64_Phdr *segment)
{
	uint64_t first = ob_page_of(segment->p_vaddr),
		 end = ob_page_end(segment->p_vaddr + segment->p_memsz);

	if (!is_changed(loading, segment))
		return 0;
	return ob_platform_image_protect(first + loading->distance, end - first,
					 protection_of(segment));
}

static int for_each_load_segment(const struct ob_loading *loading,
				 int function(const struct ob_loading *, const Elf64_Phdr *))
{
	int error = 0;

	for (int i = 0; i < loading->header->e_phnum && !error; i++)
		if (loading->segments[i].p_type == PT_LOAD)
			error = function(loading, &loading->segments[i]);
	return error;
}

/* When only the data are loaded again, everything else is relocated already. */
static bool is_relocated(const struct ob_loading *loading, uint64_t address)
{
	const Elf64_Phdr *segment;

	if (!loading->renews)
		return true;
	segment = ob_image_segment_of(loading, address, 8, false);
	address += loading->distance;
	return segment->p_flags & PF_W &&
	       (address < (uint64_t)loading->image->upcalls->kept ||
		address >= (uint64_t)loading->image->upcalls->kept_end);
}

static bool apply_relr(struct ob_loading *loading, uint64_t address)
{
	if (!is_relocated(loading, address))
		return true;
	*(uint64_t *)(address + loading->distance) += loading->distance;
	return true;
}

static void relocate(struct ob_loading *loading)
{
	uint64_t count;
	const Elf64_Rela *entries = ob_image_rela_of(loading, &count);

	for (uint64_t i = 0; i < count; i++) {
		uint64_t *place = (uint64_t *)(entries[i].r_offset + loading->distance);

		if (is_relocated(loading, entries[i].r_offset))
			*place = loading->distance + (uint64_t)entries[i].r_addend;
	}
	if (loading->distance)
		ob_image_visit_relr(loading, apply_relr);
}

static int map(struct ob_loading *loading)
{
	int error = for_each_load_segment(loading, map_segment);

	if (error)
		return error;
	relocate(loading);
	return for_each_load_segment(loading, protect_segment);
}

static int reserve(struct ob_loading *loading)
{
	struct ob_image *image = loading->image;
	int error;

	image->address = loading->first;
	image->size = loading->end - loading->first;
	image->linked = loading->first;
	image->reserved = image->size + OB_DEBUGGER_BYTES + ob_page_end(loading->file.size);
	error = ob_platform_image_reserve(image->host, image->reserved, &image->address,
					  &image->placed);
	loading->distance = image->address - loading->first;
	return error;
}

/* Maps headers and file in one range, as debuggers need them. That takes no memory. */
static void show_file(struct ob_loading *loading)
{
	struct ob_image *image = loading->image;
	uint64_t first = image->address + image->size;
	struct ob_platform_segment header = {
		.address = first, .size = OB_DEBUGGER_BYTES,
		.protection = OB_PROTECTION_READ | OB_PROTECTION_WRITE,
	};
	struct ob_platform_segment file = {
		.address = first + OB_DEBUGGER_BYTES, .size = loading->file.size,
		.file_size = loading->file.size, .protection = OB_PROTECTION_READ,
	};

	if (loading->file.handle >= 0 && !ob_platform_image_map(&loading->file, &header) &&
	    !ob_platform_image_map(&loading->file, &file))
		image->shown = first;
}

/* The functions that every kernel of this interface version has. Later ones may be absent. */
#define LEAST_UPCALLS offsetof(struct ob_upcalls, virtio_add)

int ob_image_enter(struct ob_loading *loading)
{
	ob_image_entry *entry = (ob_image_entry *)(loading->header->e_entry + loading->distance);
	struct ob_image *image = loading->image;

	image->upcalls = entry(ob_platform_hypercalls(), image->host,
			       ob_platform_thread_block(image->host));
	if (!image->upcalls || image->upcalls->size < LEAST_UPCALLS) {
		ob_image_refuse(loading, "its tables do not fit to those of this library");
		return -ENOEXEC;
	}
	ob_platform_text(image->host, image->address, image->size);
	return 0;
}

/* An older kernel's child that runs no hook of fork() must make no calls. */
static void empty_boot_number_on_fork(const struct ob_upcalls *upcalls)
{
	if (upcalls->size > offsetof(struct ob_upcalls, boot_number))
		ob_platform_empty_on_fork(upcalls->boot_number());
}

int ob_image_load(struct ob_loading *loading)
{
	struct ob_image *image = loading->image;
	int error;

	if (!ob_image_check(loading))
		return -ENOEXEC;
	error = reserve(loading);
	if (error)
		return error;
	if (!ob_image_check_relocated(loading))
		error = -ENOEXEC;
	if (!error)
		error = map(loading);
	if (!error)
		error = ob_image_enter(loading);
	if (error)
		ob_platform_image_release(image->address, image->reserved);
	else
		empty_boot_number_on_fork(image->upcalls);
	if (!error && loading->distance)
		show_file(loading);
	return error;
}

static int renew_segment(const struct ob_loading *loading, const Elf64_Phdr *segment)
{
	uint64_t first = segment->p_vaddr + loading->distance, end = first + segment->p_memsz;
	uint64_t kept = (uint64_t)loading->image->upcalls->kept;
	uint64_t kept_end = (uint64_t)loading->image->upcalls->kept_end;
	int error;

	if (!(segment->p_flags & PF_W))
		return 0;
	if (kept_end <= first || kept >= end)
		return map_part(loading, segment, first, end);
	error = map_part(loading, segment, first, kept);
	return error ? error : map_part(loading, segment, kept_end, end);
}

int ob_image_load_data(struct ob_loading *loading)
{
	int error;

	/* Somebody may have written to the file, so it is checked again. */
	if (!ob_image_check(loading) ||
	    ob_page_end(loading->end) - loading->first != loading->image->size)
		return -ENOEXEC;
	if (!ob_image_check_relocated(loading))
		return -ENOEXEC;
	error = for_each_load_segment(loading, renew_segment);
	if (!error)
		relocate(loading);
	return error;
}
