// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks of a kernel image. The file can be anything, so the checks come before any of its bytes is
 * used as an address or run as code. load.c relies on them.
 *
 * The order is: header, segments, notes, dynamic section, relocations, entry point. Each check
 * relies on those before it.
 */
#include "internal.h"

#ifndef DT_RELR
#define DT_RELRSZ 35
#define DT_RELR 36
#endif

/* Largest span of addresses: OB_REGION_MODULES must come near all of it. */
#define SPAN_MOST (256ull << 20)
#define SEGMENTS_MOST 16
#define BUILD_ID_MOST 32

static char *put_number(char *at, uint32_t number)
{
	if (number >= 10)
		at = put_number(at, number / 10);
	*at = (char)('0' + number % 10);
	return at + 1;
}

/* Each # of the reason becomes a number: the first one, then the second. */
static bool refuse_with(struct ob_loader *loader, const char *reason, uint32_t first,
			uint32_t second)
{
	char *at = loader->reason, *end = at + sizeof(loader->reason) - sizeof("4294967295");

	for (; *reason && at < end; reason++) {
		if (*reason != '#') {
			*at++ = *reason;
			continue;
		}
		at = put_number(at, first);
		first = second;
	}
	*at = '\0';
	return false;
}

bool ob_loader_refuse(struct ob_loader *loader, const char *reason)
{
	return refuse_with(loader, reason, 0, 0);
}

static bool is_inside(uint64_t start, uint64_t size, uint64_t limit)
{
	return start <= limit && size <= limit - start;
}

static bool check_header(struct ob_loader *loader)
{
	const Elf64_Ehdr *header = loader->bytes;

	if (loader->size < sizeof(*header) || __builtin_memcmp(header->e_ident, ELFMAG, SELFMAG))
		return ob_loader_refuse(loader, "it is not an ELF file");
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
		return ob_loader_refuse(loader, "it is not a 64-bit little-endian ELF file");
	if (header->e_machine != EM_X86_64)
		return refuse_with(loader, "it is not for x86-64 (its ELF machine is #)",
				   header->e_machine, 0);
	if (header->e_type != ET_DYN)
		return ob_loader_refuse(loader, "it is not a position-independent ELF file");
	if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff % 8 ||
	    !header->e_phnum || header->e_phnum > SEGMENTS_MOST ||
	    !is_inside(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr), loader->size))
		return ob_loader_refuse(loader, "its table of segments is damaged");
	loader->header = header;
	loader->segments = (const void *)((const char *)header + header->e_phoff);
	return true;
}

static bool check_load_segment(struct ob_loader *loader, const Elf64_Phdr *segment)
{
	if (!is_inside(segment->p_offset, segment->p_filesz, loader->size))
		return ob_loader_refuse(loader, "it is truncated: a segment ends beyond the end of "
						"the file");
	if (segment->p_filesz > segment->p_memsz || segment->p_memsz > SPAN_MOST ||
	    segment->p_vaddr > UINT64_MAX / 2 ||
	    (segment->p_vaddr - segment->p_offset) % OB_LOADER_PAGE)
		return ob_loader_refuse(loader, "a segment has impossible addresses");
	if (!(segment->p_flags & PF_W) && segment->p_filesz != segment->p_memsz)
		return ob_loader_refuse(loader, "a read-only segment is larger than its part of "
						"the file");
	if ((segment->p_flags & PF_W) && (segment->p_flags & PF_X))
		return ob_loader_refuse(loader, "a segment is writable and executable");
	if (loader->end && ob_loader_page_of(segment->p_vaddr) < loader->end)
		return ob_loader_refuse(loader, "its segments overlap");
	if (!loader->end)
		loader->first = ob_loader_page_of(segment->p_vaddr);
	loader->end = ob_loader_page_end(segment->p_vaddr + segment->p_memsz);
	if (loader->end - loader->first > SPAN_MOST)
		return ob_loader_refuse(loader, "its segments are too far apart");
	return true;
}

static bool check_segments(struct ob_loader *loader)
{
	for (int i = 0; i < loader->header->e_phnum; i++) {
		const Elf64_Phdr *segment = &loader->segments[i];

		if (segment->p_type == PT_INTERP)
			return ob_loader_refuse(loader, "it is a program or a library of the host");
		if (segment->p_type == PT_LOAD && !check_load_segment(loader, segment))
			return false;
		if (segment->p_type == PT_TLS)
			return ob_loader_refuse(loader, "it has thread-local storage of its own");
	}
	return loader->end ? true : ob_loader_refuse(loader, "it has no segments to load");
}

/* The address 0 is NULL's, and in a request for address space 0 means any. */
static bool check_address(struct ob_loader *loader)
{
	return loader->first ? true : ob_loader_refuse(loader, "it is linked to the address 0");
}

const Elf64_Phdr *ob_loader_segment_of(const struct ob_loader *loader, uint64_t address,
				      uint64_t size, bool in_file)
{
	for (int i = 0; i < loader->header->e_phnum; i++) {
		const Elf64_Phdr *segment = &loader->segments[i];

		if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
		    is_inside(address - segment->p_vaddr, size,
			      in_file ? segment->p_filesz : segment->p_memsz))
			return segment;
	}
	return NULL;
}

/* Returns the file's bytes for a range of addresses as linked, or NULL. */
static const void *bytes_of(const struct ob_loader *loader, uint64_t address, uint64_t size)
{
	const Elf64_Phdr *segment = ob_loader_segment_of(loader, address, size, true);

	if (!segment || address % 8)
		return NULL;
	return (const char *)loader->bytes + segment->p_offset + (address - segment->p_vaddr);
}

static bool is_number(const Elf64_Nhdr *note, const char *name, uint32_t type)
{
	return note->n_type == type && note->n_namesz == sizeof(OB_NOTE_NAME) &&
	       !__builtin_memcmp(name, OB_NOTE_NAME, sizeof(OB_NOTE_NAME)) && note->n_descsz == 4;
}

static void read_note(struct ob_loader *loader, const Elf64_Nhdr *note, const char *name,
		      const void *contents)
{
	if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof("GNU") &&
	    !__builtin_memcmp(name, "GNU", sizeof("GNU")) && note->n_descsz <= BUILD_ID_MOST) {
		loader->id_size = note->n_descsz;
		loader->id = contents;
	}
	if (is_number(note, name, OB_NOTE_INTERFACE)) {
		loader->interface = *(const uint32_t *)contents;
		loader->has_interface = true;
	}
	if (is_number(note, name, OB_NOTE_THREAD_BLOCK))
		loader->thread_block_used = *(const uint32_t *)contents;
}

static void read_notes(struct ob_loader *loader, const Elf64_Phdr *segment)
{
	uint64_t at = segment->p_offset, end = at + segment->p_filesz;

	if (!is_inside(at, segment->p_filesz, loader->size) || at % 4)
		return;
	while (end - at >= sizeof(Elf64_Nhdr)) {
		const char *start = (const char *)loader->bytes + at;
		const Elf64_Nhdr *note = (const void *)start;
		uint64_t name = (note->n_namesz + 3ull) & ~3ull;
		uint64_t contents = (note->n_descsz + 3ull) & ~3ull;

		if (name + contents > end - at - sizeof(*note))
			return;
		start += sizeof(*note);
		read_note(loader, note, start, start + name);
		at += sizeof(*note) + name + contents;
	}
}

static bool check_notes(struct ob_loader *loader)
{
	for (int i = 0; i < loader->header->e_phnum; i++)
		if (loader->segments[i].p_type == PT_NOTE)
			read_notes(loader, &loader->segments[i]);
	if (!loader->has_interface)
		return ob_loader_refuse(loader, "it is not a kernel of Outboard");
	if (loader->interface != OB_INTERFACE_VERSION)
		return refuse_with(loader, "its interface has version #, this library's has "
				   "version #: use an image and a library of the same release",
				   loader->interface, OB_INTERFACE_VERSION);
	if (loader->thread_block_used > loader->thread_block)
		return refuse_with(loader, "it uses # bytes of each thread's block, and this host "
				   "has # bytes", loader->thread_block_used, loader->thread_block);
	return true;
}

static void read_dynamic(struct ob_loader *loader, const Elf64_Dyn *tag)
{
	switch (tag->d_tag) {
	case DT_RELA:
		loader->rela.address = tag->d_un.d_ptr;
		break;
	case DT_RELASZ:
		loader->rela.size = tag->d_un.d_val;
		break;
	case DT_RELR:
		loader->relr.address = tag->d_un.d_ptr;
		break;
	case DT_RELRSZ:
		loader->relr.size = tag->d_un.d_val;
		break;
	}
}

static bool check_dynamic(struct ob_loader *loader)
{
	const Elf64_Phdr *dynamic = NULL;
	const Elf64_Dyn *tags;

	for (int i = 0; i < loader->header->e_phnum; i++)
		if (loader->segments[i].p_type == PT_DYNAMIC)
			dynamic = &loader->segments[i];
	tags = dynamic ? bytes_of(loader, dynamic->p_vaddr, dynamic->p_filesz) : NULL;
	if (!tags)
		return ob_loader_refuse(loader, "its dynamic section is missing or damaged");
	for (uint64_t i = 0; i < dynamic->p_filesz / sizeof(*tags) && tags[i].d_tag; i++) {
		if (tags[i].d_tag == DT_NEEDED || tags[i].d_tag == DT_JMPREL)
			return ob_loader_refuse(loader, "it needs other libraries");
		read_dynamic(loader, &tags[i]);
	}
	if ((loader->rela.size && !bytes_of(loader, loader->rela.address, loader->rela.size)) ||
	    (loader->relr.size && !bytes_of(loader, loader->relr.address, loader->relr.size)))
		return ob_loader_refuse(loader, "its relocations are missing or damaged");
	return true;
}

const Elf64_Rela *ob_loader_rela_of(const struct ob_loader *loader, uint64_t *count)
{
	*count = loader->rela.size / sizeof(Elf64_Rela);
	return *count ? bytes_of(loader, loader->rela.address, loader->rela.size) : NULL;
}

static bool check_rela(struct ob_loader *loader)
{
	uint64_t count;
	const Elf64_Rela *entries = ob_loader_rela_of(loader, &count);

	for (uint64_t i = 0; i < count; i++) {
		const Elf64_Phdr *segment = ob_loader_segment_of(loader, entries[i].r_offset, 8,
								false);
		uint64_t type = ELF64_R_TYPE(entries[i].r_info);

		if (type != R_X86_64_RELATIVE)
			return refuse_with(loader, "it has relocations of the unknown type #",
					   (uint32_t)type, 0);
		if (!segment || !(segment->p_flags & PF_W))
			return ob_loader_refuse(loader, "a relocation is not in its data");
	}
	return true;
}

bool ob_loader_visit_relr(struct ob_loader *loader, ob_loader_visit *visit, void *context)
{
	const uint64_t *entries = NULL;
	uint64_t count = loader->relr.size / sizeof(*entries), next = 0;

	if (count)
		entries = bytes_of(loader, loader->relr.address, loader->relr.size);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t entry = entries[i];

		/* An even entry is an address, an odd one a bitmap of the 63 words that follow. */
		if (!(entry & 1)) {
			if (!visit(loader, entry, context))
				return false;
			next = entry + 8;
			continue;
		}
		for (uint64_t bit = 1; bit < 64; bit++)
			if ((entry >> bit & 1) && !visit(loader, next + 8 * (bit - 1), context))
				return false;
		next += 8 * 63;
	}
	return true;
}

static bool check_relr(struct ob_loader *loader, uint64_t address, void *context)
{
	const Elf64_Phdr *segment = ob_loader_segment_of(loader, address, 8, false);

	(void)context;
	if (!segment || segment->p_flags & PF_X)
		return ob_loader_refuse(loader, "a relocation is not in its data");
	return true;
}

bool ob_loader_check_moved(struct ob_loader *loader)
{
	return !loader->distance || ob_loader_visit_relr(loader, check_relr, NULL);
}

static bool check_entry(struct ob_loader *loader)
{
	const Elf64_Phdr *segment = ob_loader_segment_of(loader, loader->header->e_entry, 1, true);

	if (!segment || !(segment->p_flags & PF_X))
		return ob_loader_refuse(loader, "its entry point is not in its code");
	return true;
}

bool ob_loader_check(struct ob_loader *loader)
{
	loader->first = loader->end = 0;
	loader->rela = loader->relr = (struct ob_loader_table){ 0 };
	loader->id_size = 0;
	loader->has_interface = false;
	loader->thread_block_used = OB_THREAD_BLOCK_BYTES;
	return check_header(loader) && check_segments(loader) && check_notes(loader) &&
	       check_address(loader) && check_dynamic(loader) && check_rela(loader) &&
	       check_entry(loader);
}
