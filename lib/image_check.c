// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks of a kernel image. The file can be anything, so the checks come before any of its bytes is
 * used as an address or run as code. image_load.c relies on them.
 *
 * The order is: header, segments, notes, dynamic section, relocations, entry point. Each check
 * relies on those before it.
 */
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "image_load.h"

#ifndef DT_RELR
#define DT_RELRSZ 35
#define DT_RELR 36
#endif

/* Largest span of addresses: OB_REGION_MODULES must come near all of it. */
#define SPAN_MOST (256ull << 20)
#define SEGMENTS_MOST 16

bool ob_image_refuse(struct ob_loading *loading, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(loading->reason, loading->reason_size, format, arguments);
	va_end(arguments);
	return false;
}

static bool is_inside(uint64_t start, uint64_t size, uint64_t limit)
{
	return start <= limit && size <= limit - start;
}

static bool check_header(struct ob_loading *loading)
{
	const Elf64_Ehdr *header = loading->file.bytes;

	if (loading->file.size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG))
		return ob_image_refuse(loading, "it is not an ELF file");
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
		return ob_image_refuse(loading, "it is not a 64-bit little-endian ELF file");
	if (header->e_machine != EM_X86_64)
		return ob_image_refuse(loading, "it is not for x86-64 (its ELF machine is %u)",
			      header->e_machine);
	if (header->e_type != ET_DYN)
		return ob_image_refuse(loading, "it is not a position-independent ELF file");
	if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff % 8 ||
	    !header->e_phnum || header->e_phnum > SEGMENTS_MOST ||
	    !is_inside(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr), loading->file.size))
		return ob_image_refuse(loading, "its table of segments is damaged");
	loading->header = header;
	loading->segments = (const void *)((const char *)header + header->e_phoff);
	return true;
}

static bool check_load_segment(struct ob_loading *loading, const Elf64_Phdr *segment)
{
	if (!is_inside(segment->p_offset, segment->p_filesz, loading->file.size))
		return ob_image_refuse(loading, "it is truncated: a segment ends beyond the end of "
						"the file");
	if (segment->p_filesz > segment->p_memsz || segment->p_memsz > SPAN_MOST ||
	    segment->p_vaddr > UINT64_MAX / 2 ||
	    (segment->p_vaddr - segment->p_offset) % PAGE_BYTES)
		return ob_image_refuse(loading, "a segment has impossible addresses");
	if (!(segment->p_flags & PF_W) && segment->p_filesz != segment->p_memsz)
		return ob_image_refuse(loading, "a read-only segment is larger than its part of "
						"the file");
	if ((segment->p_flags & PF_W) && (segment->p_flags & PF_X))
		return ob_image_refuse(loading, "a segment is writable and executable");
	if (loading->end && ob_page_of(segment->p_vaddr) < loading->end)
		return ob_image_refuse(loading, "its segments overlap");
	if (!loading->end)
		loading->first = ob_page_of(segment->p_vaddr);
	loading->end = ob_page_end(segment->p_vaddr + segment->p_memsz);
	if (loading->end - loading->first > SPAN_MOST)
		return ob_image_refuse(loading, "its segments are too far apart");
	return true;
}

static bool check_segments(struct ob_loading *loading)
{
	for (int i = 0; i < loading->header->e_phnum; i++) {
		const Elf64_Phdr *segment = &loading->segments[i];

		if (segment->p_type == PT_INTERP)
			return ob_image_refuse(loading, "it is a program or a library of the host");
		if (segment->p_type == PT_LOAD && !check_load_segment(loading, segment))
			return false;
		if (segment->p_type == PT_TLS)
			return ob_image_refuse(loading, "it has thread-local storage of its own");
	}
	return loading->end ? true : ob_image_refuse(loading, "it has no segments to load");
}

/* The address 0 is NULL's, and in a request for address space 0 means any. */
static bool check_address(struct ob_loading *loading)
{
	return loading->first ? true : ob_image_refuse(loading, "it is linked to the address 0");
}

/* Returns the segment that contains the range in memory, or in the file; or NULL. */
const Elf64_Phdr *ob_image_segment_of(const struct ob_loading *loading, uint64_t address,
				      uint64_t size, bool in_file)
{
	for (int i = 0; i < loading->header->e_phnum; i++) {
		const Elf64_Phdr *segment = &loading->segments[i];

		if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
		    is_inside(address - segment->p_vaddr, size,
			      in_file ? segment->p_filesz : segment->p_memsz))
			return segment;
	}
	return NULL;
}

/* Returns the file's bytes for a range of addresses as linked, or NULL. */
static const void *bytes_of(const struct ob_loading *loading, uint64_t address, uint64_t size)
{
	const Elf64_Phdr *segment = ob_image_segment_of(loading, address, size, true);

	if (!segment || address % 8)
		return NULL;
	return (const char *)loading->file.bytes + segment->p_offset + (address - segment->p_vaddr);
}

static void read_note(struct ob_loading *loading, const Elf64_Nhdr *note, const char *name,
		      const void *contents)
{
	struct ob_image *image = loading->image;

	if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof("GNU") &&
	    !memcmp(name, "GNU", sizeof("GNU")) && note->n_descsz <= OB_BUILD_ID_MOST) {
		image->id_size = note->n_descsz;
		memcpy(image->id, contents, note->n_descsz);
	}
	if (note->n_type == OB_NOTE_INTERFACE && note->n_namesz == sizeof(OB_NOTE_NAME) &&
	    !memcmp(name, OB_NOTE_NAME, sizeof(OB_NOTE_NAME)) && note->n_descsz == 4) {
		memcpy(&loading->interface, contents, 4);
		loading->has_interface = true;
	}
}

static void read_notes(struct ob_loading *loading, const Elf64_Phdr *segment)
{
	uint64_t at = segment->p_offset, end = at + segment->p_filesz;

	if (!is_inside(at, segment->p_filesz, loading->file.size) || at % 4)
		return;
	while (end - at >= sizeof(Elf64_Nhdr)) {
		const char *start = (const char *)loading->file.bytes + at;
		const Elf64_Nhdr *note = (const void *)start;
		uint64_t name = (note->n_namesz + 3ull) & ~3ull;
		uint64_t contents = (note->n_descsz + 3ull) & ~3ull;

		if (name + contents > end - at - sizeof(*note))
			return;
		start += sizeof(*note);
		read_note(loading, note, start, start + name);
		at += sizeof(*note) + name + contents;
	}
}

static bool check_notes(struct ob_loading *loading)
{
	for (int i = 0; i < loading->header->e_phnum; i++)
		if (loading->segments[i].p_type == PT_NOTE)
			read_notes(loading, &loading->segments[i]);
	if (!loading->has_interface)
		return ob_image_refuse(loading, "it is not a kernel of Outboard");
	if (loading->interface != OB_INTERFACE_VERSION)
		return ob_image_refuse(loading,
				       "its interface has version %u, this library's has version "
				       "%u: "
				       "use an image and a library of the same release",
				       loading->interface, OB_INTERFACE_VERSION);
	return true;
}

static void read_dynamic(struct ob_loading *loading, const Elf64_Dyn *tag)
{
	switch (tag->d_tag) {
	case DT_RELA:
		loading->rela.address = tag->d_un.d_ptr;
		break;
	case DT_RELASZ:
		loading->rela.size = tag->d_un.d_val;
		break;
	case DT_RELR:
		loading->relr.address = tag->d_un.d_ptr;
		break;
	case DT_RELRSZ:
		loading->relr.size = tag->d_un.d_val;
		break;
	}
}

static bool check_dynamic(struct ob_loading *loading)
{
	const Elf64_Phdr *dynamic = NULL;
	const Elf64_Dyn *tags;

	for (int i = 0; i < loading->header->e_phnum; i++)
		if (loading->segments[i].p_type == PT_DYNAMIC)
			dynamic = &loading->segments[i];
	tags = dynamic ? bytes_of(loading, dynamic->p_vaddr, dynamic->p_filesz) : NULL;
	if (!tags)
		return ob_image_refuse(loading, "its dynamic section is missing or damaged");
	for (uint64_t i = 0; i < dynamic->p_filesz / sizeof(*tags) && tags[i].d_tag; i++) {
		if (tags[i].d_tag == DT_NEEDED || tags[i].d_tag == DT_JMPREL)
			return ob_image_refuse(loading, "it needs other libraries");
		read_dynamic(loading, &tags[i]);
	}
	if ((loading->rela.size && !bytes_of(loading, loading->rela.address, loading->rela.size)) ||
	    (loading->relr.size && !bytes_of(loading, loading->relr.address, loading->relr.size)))
		return ob_image_refuse(loading, "its relocations are missing or damaged");
	return true;
}

const Elf64_Rela *ob_image_rela_of(const struct ob_loading *loading, uint64_t *count)
{
	*count = loading->rela.size / sizeof(Elf64_Rela);
	return *count ? bytes_of(loading, loading->rela.address, loading->rela.size) : NULL;
}

static bool check_rela(struct ob_loading *loading)
{
	uint64_t count;
	const Elf64_Rela *entries = ob_image_rela_of(loading, &count);

	for (uint64_t i = 0; i < count; i++) {
		const Elf64_Phdr *segment = ob_image_segment_of(loading, entries[i].r_offset, 8,
								false);
		uint64_t type = ELF64_R_TYPE(entries[i].r_info);

		if (type != R_X86_64_RELATIVE)
			return ob_image_refuse(loading,
					       "it has relocations of the unknown type %llu",
					       (unsigned long long)type);
		if (!segment || !(segment->p_flags & PF_W))
			return ob_image_refuse(loading, "a relocation is not in its data");
	}
	return true;
}

/* Calls the function for the address, as linked, of each relocation of DT_RELR. */
bool ob_image_visit_relr(struct ob_loading *loading, bool visit(struct ob_loading *, uint64_t))
{
	const uint64_t *entries = NULL;
	uint64_t count = loading->relr.size / sizeof(*entries), next = 0;

	if (count)
		entries = bytes_of(loading, loading->relr.address, loading->relr.size);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t entry = entries[i];

		/* An even entry is an address, an odd one a bitmap of the 63 words that follow. */
		if (!(entry & 1)) {
			if (!visit(loading, entry))
				return false;
			next = entry + 8;
			continue;
		}
		for (uint64_t bit = 1; bit < 64; bit++)
			if ((entry >> bit & 1) && !visit(loading, next + 8 * (bit - 1)))
				return false;
		next += 8 * 63;
	}
	return true;
}

static bool check_relr(struct ob_loading *loading, uint64_t address)
{
	const Elf64_Phdr *segment = ob_image_segment_of(loading, address, 8, false);

	if (!segment || segment->p_flags & PF_X)
		return ob_image_refuse(loading, "a relocation is not in its data");
	return true;
}

/* There are tens of thousands: they are checked only where they are applied. */
bool ob_image_check_relocated(struct ob_loading *loading)
{
	return !loading->distance || ob_image_visit_relr(loading, check_relr);
}

static bool check_entry(struct ob_loading *loading)
{
	const Elf64_Phdr *segment = ob_image_segment_of(loading, loading->header->e_entry, 1, true);

	if (!segment || !(segment->p_flags & PF_X))
		return ob_image_refuse(loading, "its entry point is not in its code");
	return true;
}

bool ob_image_check(struct ob_loading *loading)
{
	return check_header(loading) && check_segments(loading) && check_notes(loading) &&
	       check_address(loading) && check_dynamic(loading) && check_rela(loading) &&
	       check_entry(loading);
}
