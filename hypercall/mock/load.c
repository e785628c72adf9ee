// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads a kernel image: copies its segments, applies its relocations, calls its entry point. The
 * files are those of this build, so this file checks only the interface version. lib/image_check.c
 * has the checks of other files.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

#ifndef DT_RELR
#define DT_RELRSZ 35
#define DT_RELR 36
#endif

/* A file in memory, and the distance between its address as linked and its address here. */
struct image {
	const char *bytes;
	uint64_t size;
	const Elf64_Ehdr *header;
	const Elf64_Phdr *segments;
	uint64_t distance;
};

static bool open_image(const char *path, struct image *image)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	void *bytes = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &status) && status.st_size)
		bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (bytes == MAP_FAILED)
		return false;
	image->bytes = bytes;
	image->size = (uint64_t)status.st_size;
	image->header = bytes;
	image->segments = (const void *)(image->bytes + image->header->e_phoff);
	return true;
}

static bool has_our_version(const struct image *image)
{
	static const struct {
		Elf64_Nhdr header;
		char name[(sizeof(OB_NOTE_NAME) + 3) & ~3ul];
		uint32_t version;
	} note = {
		{ sizeof(OB_NOTE_NAME), 4, OB_NOTE_INTERFACE }, OB_NOTE_NAME, OB_INTERFACE_VERSION
	};

	for (int i = 0; i < image->header->e_phnum; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_NOTE &&
		    memmem(image->bytes + segment->p_offset, segment->p_filesz, &note,
			   sizeof(note)))
			return true;
	}
	return false;
}

/* Copies all segments into one piece of memory. */
static bool copy_segments(struct ob_host *host, struct image *image)
{
	uint64_t end = 0, first = UINT64_MAX;

	for (int i = 0; i < image->header->e_phnum; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type != PT_LOAD)
			continue;
		if (segment->p_vaddr < first)
			first = segment->p_vaddr & ~(PAGE_BYTES - 1);
		end = segment->p_vaddr + segment->p_memsz;
	}
	host->image_size = (end - first + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	host->image = mmap(NULL, host->image_size, PROT_READ | PROT_WRITE | PROT_EXEC,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (host->image == MAP_FAILED)
		return false;
	image->distance = (uint64_t)host->image - first;
	for (int i = 0; i < image->header->e_phnum; i++) {
		const Elf64_Phdr *segment = &image->segments[i];

		if (segment->p_type == PT_LOAD)
			memcpy((void *)(segment->p_vaddr + image->distance),
			       image->bytes + segment->p_offset, segment->p_filesz);
	}
	return true;
}

static uint64_t dynamic(const struct image *image, int64_t tag)
{
	for (int i = 0; i < image->header->e_phnum; i++) {
		const Elf64_Phdr *segment = &image->segments[i];
		const Elf64_Dyn *entry = (const void *)(segment->p_vaddr + image->distance);

		if (segment->p_type != PT_DYNAMIC)
			continue;
		for (; entry->d_tag; entry++)
			if (entry->d_tag == tag)
				return entry->d_un.d_val;
	}
	return 0;
}

/* Each entry names one word that is an address. */
static void apply_rela(const struct image *image)
{
	const Elf64_Rela *entry = (const void *)(dynamic(image, DT_RELA) + image->distance);
	uint64_t count = dynamic(image, DT_RELASZ) / sizeof(*entry);

	for (; count; count--, entry++) {
		uint64_t *word = (uint64_t *)(entry->r_offset + image->distance);

		*word = (uint64_t)entry->r_addend + image->distance;
	}
}

/*
 * Words that contain an address as linked. An even entry names one word. An odd entry is a bitmap
 * of the next 63 words.
 */
static void apply_relr(const struct image *image)
{
	const uint64_t *entry = (const void *)(dynamic(image, DT_RELR) + image->distance);
	uint64_t count = dynamic(image, DT_RELRSZ) / sizeof(*entry);
	uint64_t *next = NULL;

	for (; count; count--, entry++) {
		if (!(*entry & 1)) {
			next = (uint64_t *)(*entry + image->distance);
			*next++ += image->distance;
			continue;
		}
		for (int bit = 1; bit < 64; bit++)
			if (*entry >> bit & 1)
				next[bit - 1] += image->distance;
		next += 63;
	}
}

static bool start_image(struct ob_host *host, struct image *image)
{
	ob_image_entry *entry;

	if (!has_our_version(image) || !copy_segments(host, image))
		return false;
	apply_rela(image);
	apply_relr(image);
	mock_tables_fill(host, &host->table);
	entry = (ob_image_entry *)(image->header->e_entry + image->distance);
	host->upcalls = entry(&host->table, host, mock_thread_block_distance(host));
	return host->upcalls;
}

bool mock_load(struct ob_host *host, const char *path)
{
	struct image image;
	bool done;

	if (!open_image(path, &image)) {
		fprintf(stderr, "mock: %s: %s\n", path, strerror(errno));
		return false;
	}
	done = start_image(host, &image);
	munmap((void *)image.bytes, image.size);
	if (!done)
		fprintf(stderr, "mock: %s is no kernel image of version %d\n", path,
			OB_INTERFACE_VERSION);
	return done;
}
