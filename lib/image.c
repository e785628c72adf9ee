// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads a kernel image: an ELF file of outboard/tables.h.
 *
 *   opened -> checked -> reserved -> mapped -> relocated -> protected -> entered
 *
 * After a halt the writable data are mapped and relocated once more.
 *
 * All checks come before the first byte of the file is used as an address or run as code.
 * Addresses in the file are right at the address that it was linked for: if that is free, hardly
 * anything has to be relocated.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

#ifndef DT_RELR
#define DT_RELRSZ 35
#define DT_RELR 36
#endif

#define PAGE_BYTES 4096ull
/* All that it takes of the address space; OB_REGION_MODULES must come near it. */
#define SPAN_MOST (256ull << 20)
#define SEGMENTS_MOST 16

/* A part of the file that says how something else is to be read. */
struct table {
	uint64_t address;		/* as linked */
	uint64_t size;
};

struct loading {
	struct ob_platform_file file;
	const Elf64_Ehdr *header;
	const Elf64_Phdr *segments;
	uint64_t first, end;		/* addresses as linked, of whole pages */
	uint64_t distance;		/* from where it was linked to where it is */
	struct table rela, relr;
	uint32_t interface;
	bool has_interface;
	bool renews;			/* only the data, of an image that was loaded before */
	struct ob_image *image;
	char *reason;
	size_t reason_size;
};

/* Notes why the image is refused. Returns false, so that checks can return what it returns. */
static __attribute__((format(printf, 2, 3))) bool refuse(struct loading *loading,
							 const char *format, ...)
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

static uint64_t page_of(uint64_t address)
{
	return address & ~(PAGE_BYTES - 1);
}

static uint64_t page_end(uint64_t address)
{
	return page_of(address + PAGE_BYTES - 1);
}

static bool check_header(struct loading *loading)
{
	const Elf64_Ehdr *header = loading->file.bytes;

	if (loading->file.size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG))
		return refuse(loading, "it is not an ELF file");
	if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64)
		return refuse(loading, "it is not for x86-64 (its ELF machine is %u)",
			      header->e_machine);
	if (header->e_type != ET_DYN)
		return refuse(loading, "it is not a position-independent ELF file");
	if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff % 8 ||
	    !header->e_phnum || header->e_phnum > SEGMENTS_MOST ||
	    !is_inside(header->e_phoff, header->e_phnum * sizeof(Elf64_Phdr), loading->file.size))
		return refuse(loading, "its table of segments is damaged");
	loading->header = header;
	loading->segments = (const void *)((const char *)header + header->e_phoff);
	return true;
}

static bool check_load_segment(struct loading *loading, const Elf64_Phdr *segment)
{
	if (!is_inside(segment->p_offset, segment->p_filesz, loading->file.size))
		return refuse(loading, "it is truncated: a segment ends beyond the end of the file");
	if (segment->p_filesz > segment->p_memsz || segment->p_memsz > SPAN_MOST ||
	    segment->p_vaddr > UINT64_MAX / 2 ||
	    (segment->p_vaddr - segment->p_offset) % PAGE_BYTES)
		return refuse(loading, "a segment has impossible addresses");
	if (!(segment->p_flags & PF_W) && segment->p_filesz != segment->p_memsz)
		return refuse(loading, "a read-only segment is larger than its part of the file");
	if ((segment->p_flags & PF_W) && (segment->p_flags & PF_X))
		return refuse(loading, "a segment is writable and executable");
	if (loading->end && page_of(segment->p_vaddr) < loading->end)
		return refuse(loading, "its segments overlap");
	if (!loading->end)
		loading->first = page_of(segment->p_vaddr);
	loading->end = page_end(segment->p_vaddr + segment->p_memsz);
	if (loading->end - loading->first > SPAN_MOST)
		return refuse(loading, "its segments are too far apart");
	return true;
}

static bool check_segments(struct loading *loading)
{
	for (int i = 0; i < loading->header->e_phnum; i++) {
		const Elf64_Phdr *segment = &loading->segments[i];

		if (segment->p_type == PT_INTERP)
			return refuse(loading, "it is a program or a library of the host");
		if (segment->p_type == PT_LOAD && !check_load_segment(loading, segment))
			return false;
		if (segment->p_type == PT_TLS)
			return refuse(loading, "it has thread-local storage of its own");
	}
	return loading->end ? true : refuse(loading, "it has no segments to load");
}

/* At 0 it would be where NULL points to; and NULL tells the host to choose. */
static bool check_address(struct loading *loading)
{
	return loading->first ? true : refuse(loading, "it is linked to the address 0");
}

/* The segment that has all of the range in memory, or in the file; NULL if none has. */
static const Elf64_Phdr *segment_of(const struct loading *loading, uint64_t address,
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

/* The bytes of the file for a range of addresses as linked; NULL if there are none. */
static const void *bytes_of(const struct loading *loading, uint64_t address, uint64_t size)
{
	const Elf64_Phdr *segment = segment_of(loading, address, size, true);

	if (!segment || address % 8)
		return NULL;
	return (const char *)loading->file.bytes + segment->p_offset + (address - segment->p_vaddr);
}

static void read_note(struct loading *loading, const Elf64_Nhdr *note, const char *name,
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

static void read_notes(struct loading *loading, const Elf64_Phdr *segment)
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

static bool check_notes(struct loading *loading)
{
	for (int i = 0; i < loading->header->e_phnum; i++)
		if (loading->segments[i].p_type == PT_NOTE)
			read_notes(loading, &loading->segments[i]);
	if (!loading->has_interface)
		return refuse(loading, "it is not a kernel of Outboard");
	if (loading->interface != OB_INTERFACE_VERSION)
		return refuse(loading, "its interface has version %u, this library's has version %u: "
			      "use an image and a library of the same release",
			      loading->interface, OB_INTERFACE_VERSION);
	return true;
}

static void read_dynamic(struct loading *loading, const Elf64_Dyn *tag)
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

static bool check_dynamic(struct loading *loading)
{
	const Elf64_Phdr *dynamic = NULL;
	const Elf64_Dyn *tags;

	for (int i = 0; i < loading->header->e_phnum; i++)
		if (loading->segments[i].p_type == PT_DYNAMIC)
			dynamic = &loading->segments[i];
	tags = dynamic ? bytes_of(loading, dynamic->p_vaddr, dynamic->p_filesz) : NULL;
	if (!tags)
		return refuse(loading, "its dynamic section is missing or damaged");
	for (uint64_t i = 0; i < dynamic->p_filesz / sizeof(*tags) && tags[i].d_tag; i++) {
		if (tags[i].d_tag == DT_NEEDED || tags[i].d_tag == DT_JMPREL)
			return refuse(loading, "it needs other libraries");
		read_dynamic(loading, &tags[i]);
	}
	if ((loading->rela.size && !bytes_of(loading, loading->rela.address, loading->rela.size)) ||
	    (loading->relr.size && !bytes_of(loading, loading->relr.address, loading->relr.size)))
		return refuse(loading, "its relocations are missing or damaged");
	return true;
}

static const Elf64_Rela *rela_of(const struct loading *loading, uint64_t *count)
{
	*count = loading->rela.size / sizeof(Elf64_Rela);
	return *count ? bytes_of(loading, loading->rela.address, loading->rela.size) : NULL;
}

static bool check_rela(struct loading *loading)
{
	uint64_t count;
	const Elf64_Rela *entries = rela_of(loading, &count);

	for (uint64_t i = 0; i < count; i++) {
		const Elf64_Phdr *segment = segment_of(loading, entries[i].r_offset, 8, false);
		uint64_t type = ELF64_R_TYPE(entries[i].r_info);

		if (type != R_X86_64_RELATIVE)
			return refuse(loading, "it has relocations of the unknown type %llu",
				      (unsigned long long)type);
		if (!segment || !(segment->p_flags & PF_W))
			return refuse(loading, "a relocation is not in its data");
	}
	return true;
}

/* Calls the function for the address, as linked, of each relocation of DT_RELR. */
static bool visit_relr(struct loading *loading, bool visit(struct loading *, uint64_t))
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

static bool check_relr(struct loading *loading, uint64_t address)
{
	const Elf64_Phdr *segment = segment_of(loading, address, 8, false);

	if (!segment || segment->p_flags & PF_X)
		return refuse(loading, "a relocation is not in its data");
	return true;
}

static bool check_entry(struct loading *loading)
{
	const Elf64_Phdr *segment = segment_of(loading, loading->header->e_entry, 1, true);

	if (!segment || !(segment->p_flags & PF_X))
		return refuse(loading, "its entry point is not in its code");
	return true;
}

static bool check(struct loading *loading)
{
	return check_header(loading) && check_segments(loading) && check_notes(loading) &&
	       check_address(loading) && check_dynamic(loading) && check_rela(loading) &&
	       check_entry(loading);
}

static uint32_t protection_of(const Elf64_Phdr *segment)
{
	return (segment->p_flags & PF_R ? OB_PROTECTION_READ : 0) |
	       (segment->p_flags & PF_W ? OB_PROTECTION_WRITE : 0) |
	       (segment->p_flags & PF_X ? OB_PROTECTION_EXECUTE : 0);
}

/* Data that a relocation changes are writable until then. */
static bool is_changed(const struct loading *loading, const Elf64_Phdr *segment)
{
	return loading->distance && !(segment->p_flags & (PF_W | PF_X));
}

/* The part of the segment from `first` to `end`, which are where it is in memory. */
static int map_part(const struct loading *loading, const Elf64_Phdr *segment, uint64_t first,
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

static int map_segment(const struct loading *loading, const Elf64_Phdr *segment)
{
	uint64_t first = segment->p_vaddr + loading->distance;

	return map_part(loading, segment, first, first + segment->p_memsz);
}

static int protect_segment(const struct loading *loading, const Elf64_Phdr *segment)
{
	uint64_t first = page_of(segment->p_vaddr), end = page_end(segment->p_vaddr + segment->p_memsz);

	if (!is_changed(loading, segment))
		return 0;
	return ob_platform_image_protect(first + loading->distance, end - first,
					 protection_of(segment));
}

static int for_each_load_segment(const struct loading *loading,
				 int function(const struct loading *, const Elf64_Phdr *))
{
	int error = 0;

	for (int i = 0; i < loading->header->e_phnum && !error; i++)
		if (loading->segments[i].p_type == PT_LOAD)
			error = function(loading, &loading->segments[i]);
	return error;
}

/* While data are made new, all others are as they shall be. */
static bool is_relocated(const struct loading *loading, uint64_t address)
{
	const Elf64_Phdr *segment;

	if (!loading->renews)
		return true;
	segment = segment_of(loading, address, 8, false);
	address += loading->distance;
	return segment->p_flags & PF_W &&
	       (address < (uint64_t)loading->image->upcalls->kept ||
		address >= (uint64_t)loading->image->upcalls->kept_end);
}

static bool apply_relr(struct loading *loading, uint64_t address)
{
	if (!is_relocated(loading, address))
		return true;
	*(uint64_t *)(address + loading->distance) += loading->distance;
	return true;
}

static void relocate(struct loading *loading)
{
	uint64_t count;
	const Elf64_Rela *entries = rela_of(loading, &count);

	for (uint64_t i = 0; i < count; i++) {
		uint64_t *place = (uint64_t *)(entries[i].r_offset + loading->distance);

		if (is_relocated(loading, entries[i].r_offset))
			*place = loading->distance + (uint64_t)entries[i].r_addend;
	}
	if (loading->distance)
		visit_relr(loading, apply_relr);
}

static int map(struct loading *loading)
{
	int error = for_each_load_segment(loading, map_segment);

	if (error)
		return error;
	relocate(loading);
	return for_each_load_segment(loading, protect_segment);
}

static int reserve(struct loading *loading)
{
	struct ob_image *image = loading->image;
	int error;

	image->address = loading->first;
	image->size = loading->end - loading->first;
	image->linked = loading->first;
	image->reserved = image->size + OB_DEBUGGER_BYTES + page_end(loading->file.size);
	error = ob_platform_image_reserve(image->host, image->reserved, &image->address,
					  &image->placed);
	loading->distance = image->address - loading->first;
	return error;
}

/* For debuggers, which want headers and file in one range. A mapping takes no memory of its own. */
static void show_file(struct loading *loading)
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

static int enter(struct loading *loading)
{
	ob_image_entry *entry = (ob_image_entry *)(loading->header->e_entry + loading->distance);
	struct ob_image *image = loading->image;

	image->upcalls = entry(ob_platform_hypercalls(), image->host,
			       ob_platform_thread_block(image->host));
	if (!image->upcalls || image->upcalls->size < sizeof(struct ob_upcalls)) {
		refuse(loading, "its tables do not fit to those of this library");
		return -ENOEXEC;
	}
	ob_platform_text(image->host, image->address, image->size);
	return 0;
}

static int load(struct loading *loading)
{
	struct ob_image *image = loading->image;
	int error;

	if (!check(loading))
		return -ENOEXEC;
	error = reserve(loading);
	if (error)
		return error;
	/* There are ten thousands of them: they are not even looked at where none is applied. */
	if (loading->distance && !visit_relr(loading, check_relr))
		error = -ENOEXEC;
	if (!error)
		error = map(loading);
	if (!error)
		error = enter(loading);
	if (error)
		ob_platform_image_release(image->address, image->reserved);
	else if (loading->distance)
		show_file(loading);
	return error;
}

static int load_new(const char *path, struct ob_image *image, char *reason, size_t reason_size)
{
	struct loading loading = { .image = image, .reason = reason, .reason_size = reason_size };
	int error;

	error = ob_platform_image_open(path, &loading.file);
	if (error) {
		refuse(&loading, "%s", error == -EINVAL ? "it is not a regular file, or empty" :
		       strerror(-error));
		return error;
	}
	error = load(&loading);
	if (error) {
		if (!*reason)
			refuse(&loading, "%s", strerror(-error));
		ob_platform_image_close(&loading.file);
		return error;
	}
	ob_platform_image_keep(&loading.file);
	image->file = loading.file;
	return 0;
}

/* All that are loaded. A fork()ed child does not know one that is just changing. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ob_image *images;

bool ob_image_is_same(const struct ob_image *image, const char *path)
{
	if (!path || !image->path)
		return !path && !image->path;
	return !strcmp(path, image->path) && ob_platform_image_is_same(path, &image->file);
}

/* One that waits. Those of other hosts are at the places of these: no snapshot would fit. */
static struct ob_image *take_waiting(const char *path, struct ob_host *host)
{
	struct ob_image *found = NULL;

	for (struct ob_image *image = images; image; image = image->next)
		if (!image->used && image->host == host && ob_image_is_same(image, path))
			found = image;
	if (found) {
		const Elf64_Ehdr *header = found->file.bytes;
		struct loading loading = {
			.image = found, .header = header, .reason = (char[256]){ 0 }, .reason_size = 256,
		};

		loading.distance = found->address - found->linked;
		if (enter(&loading))
			return NULL;
	}
	return found;
}

static struct ob_image *load_another(const char *path, struct ob_host *host, int *error,
				     char *reason, size_t reason_size)
{
	struct ob_image *image = calloc(1, sizeof(*image));

	*error = -ENOMEM;
	if (image && path)
		image->path = strdup(path);
	if (!image || (path && !image->path)) {
		snprintf(reason, reason_size, "%s", strerror(ENOMEM));
		free(image);
		return NULL;
	}
	image->host = host;
	*error = load_new(path, image, reason, reason_size);
	if (!*error)
		return image;
	free(image->path);
	free(image);
	return NULL;
}

int ob_image_take(const char *path, struct ob_host *host, struct ob_image **image, char *reason,
		  size_t reason_size)
{
	struct ob_image *taken;
	int error = 0;

	*reason = '\0';
	pthread_mutex_lock(&mutex);
	taken = take_waiting(path, host);
	if (!taken) {
		taken = load_another(path, host, &error, reason, reason_size);
		if (taken) {
			taken->next = images;
			images = taken;
		}
	}
	if (taken) {
		taken->used = true;
		ob_debugger_add(taken);
	}
	pthread_mutex_unlock(&mutex);
	*image = taken;
	return error;
}

void ob_image_release(struct ob_image *image)
{
	pthread_mutex_lock(&mutex);
	ob_debugger_remove(image);
	ob_platform_text(image->host, 0, 0);
	image->used = false;
	pthread_mutex_unlock(&mutex);
}

static int renew_segment(const struct loading *loading, const Elf64_Phdr *segment)
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

static int renew(struct loading *loading)
{
	int error;

	/* Its bytes may be others by now, if somebody has written to the file. */
	if (!check(loading) || page_end(loading->end) - loading->first != loading->image->size)
		return -ENOEXEC;
	if (loading->distance && !visit_relr(loading, check_relr))
		return -ENOEXEC;
	error = for_each_load_segment(loading, renew_segment);
	if (!error)
		relocate(loading);
	return error;
}

int ob_image_renew(struct ob_image *image)
{
	char reason[256];
	struct loading loading = {
		.image = image, .file = image->file, .reason = reason, .reason_size = sizeof(reason),
		.distance = image->address - image->linked, .renews = true,
	};
	int error;

	ob_platform_image_reopen(image->path, &loading.file);
	error = renew(&loading);
	ob_platform_image_keep(&loading.file);
	return error;
}

void ob_images_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	ob_debugger_forget();
	for (struct ob_image *image = images; image; image = image->next) {
		ob_platform_image_release(image->address, image->reserved);
		ob_platform_image_close(&image->file);
	}
	/* Their memory stays: another thread of the parent may have been in the heap. */
	images = NULL;
}
