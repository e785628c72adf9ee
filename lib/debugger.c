// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shows the symbols of the loaded kernel image to debuggers, by gdb's interface for code that is
 * made at run time ("JIT Compilation Interface" in gdb's manual). gdb finds the two names below in
 * the program or library, live or in a core dump, and reads the ELF file that they lead to.
 *
 * gdb takes the addresses in that file as they are. An image that is not where it was linked to
 * gets a file with the right ones, which has only what names and back-traces need. Each image in
 * use has an entry.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "image.h"

enum jit_action {
	JIT_NOACTION,
	JIT_REGISTER,
	JIT_UNREGISTER,
};

struct jit_code_entry {
	struct jit_code_entry *next;
	struct jit_code_entry *previous;
	const char *file;
	uint64_t size;
};

struct jit_descriptor {
	uint32_t version;
	uint32_t action;
	struct jit_code_entry *relevant;
	struct jit_code_entry *first;
};

__attribute__((used)) struct jit_descriptor __jit_debug_descriptor = { .version = 1 };

/* gdb has a breakpoint here. */
__attribute__((used, noinline)) void __jit_debug_register_code(void)
{
	__asm__ volatile("" : : : "memory");
}

struct ob_debugger_entry {
	struct jit_code_entry code;	/* first: gdb's list is of these */
	char *copy;			/* NULL: the file itself is shown */
};

static void move_symbols(char *file, const Elf64_Shdr *table, uint64_t distance)
{
	Elf64_Sym *symbols = (Elf64_Sym *)(file + table->sh_offset);

	for (uint64_t i = 0; i < table->sh_size / sizeof(*symbols); i++)
		if (symbols[i].st_shndx != SHN_UNDEF && symbols[i].st_shndx < SHN_LORESERVE &&
		    ELF64_ST_TYPE(symbols[i].st_info) != STT_TLS)
			symbols[i].st_value += distance;
}

static bool is_inside(uint64_t start, uint64_t size, uint64_t limit)
{
	return start <= limit && size <= limit - start;
}

/* An image without a table of sections, or with a damaged one, has no symbols. */
static bool has_sections(const Elf64_Ehdr *header, uint64_t size)
{
	return header->e_shentsize == sizeof(Elf64_Shdr) && header->e_shoff % 8 == 0 &&
	       is_inside(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr), size);
}

/* Symbols and their names, and how to unwind the stack, which says so relative to itself. */
static bool is_copied(const Elf64_Ehdr *header, const Elf64_Shdr *section)
{
	const char *file = (const char *)header;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(file + header->e_shoff);
	const Elf64_Shdr *names = &sections[header->e_shstrndx];

	return section->sh_type == SHT_SYMTAB ||
	       (section->sh_type == SHT_STRTAB && !(section->sh_flags & SHF_ALLOC)) ||
	       !strcmp(file + names->sh_offset + section->sh_name, ".eh_frame");
}

static uint64_t aligned(uint64_t size)
{
	return (size + 15) & ~15ull;
}

/* All that is read of the file is inside of it. */
static bool is_whole(const Elf64_Ehdr *header, uint64_t size)
{
	const Elf64_Shdr *sections = (const Elf64_Shdr *)((const char *)header + header->e_shoff);
	const Elf64_Shdr *names = &sections[header->e_shstrndx];

	if (header->e_shstrndx >= header->e_shnum || !is_inside(names->sh_offset, names->sh_size, size) ||
	    !names->sh_size || ((const char *)header)[names->sh_offset + names->sh_size - 1])
		return false;
	for (int i = 0; i < header->e_shnum; i++)
		if (sections[i].sh_name >= names->sh_size ||
		    (is_copied(header, &sections[i]) &&
		     !is_inside(sections[i].sh_offset, sections[i].sh_size, size)))
			return false;
	return true;
}

static uint64_t copy_size(const Elf64_Ehdr *header)
{
	const Elf64_Shdr *sections = (const Elf64_Shdr *)((const char *)header + header->e_shoff);
	uint64_t size = aligned(sizeof(*header)) + aligned(header->e_shnum * sizeof(*sections));

	for (int i = 0; i < header->e_shnum; i++)
		if (is_copied(header, &sections[i]))
			size += aligned(sections[i].sh_size);
	return size;
}

/* All sections, where they are now; with contents those that are copied. */
static void fill_copy(char *copy, const Elf64_Ehdr *header, uint64_t distance)
{
	const char *file = (const char *)header;
	Elf64_Ehdr *new = (Elf64_Ehdr *)copy;
	Elf64_Shdr *sections = (Elf64_Shdr *)(copy + aligned(sizeof(*header)));
	uint64_t at = aligned(sizeof(*header)) + aligned(header->e_shnum * sizeof(*sections));

	*new = *header;
	new->e_phoff = new->e_phnum = 0;
	new->e_shoff = aligned(sizeof(*header));
	memcpy(sections, file + header->e_shoff, header->e_shnum * sizeof(*sections));
	for (int i = 0; i < header->e_shnum; i++) {
		Elf64_Shdr *section = &sections[i];

		if (is_copied(header, section)) {
			memcpy(copy + at, file + section->sh_offset, section->sh_size);
			section->sh_offset = at;
			at += aligned(section->sh_size);
		} else if (section->sh_type != SHT_NULL) {
			section->sh_type = SHT_NOBITS;
		}
		if (section->sh_flags & SHF_ALLOC)
			section->sh_addr += distance;
		if (section->sh_type == SHT_SYMTAB)
			move_symbols(copy, section, distance);
	}
}

static char *moved_copy(const struct ob_image *image, uint64_t *size)
{
	const Elf64_Ehdr *header = image->file.bytes;
	char *copy;

	if (!is_whole(header, image->file.size))
		return NULL;
	*size = copy_size(header);
	copy = malloc(*size);
	if (copy)
		fill_copy(copy, header, image->address - image->linked);
	return copy;
}

static void tell(enum jit_action action, struct jit_code_entry *entry)
{
	__jit_debug_descriptor.relevant = entry;
	__jit_debug_descriptor.action = action;
	__jit_debug_register_code();
	__jit_debug_descriptor.action = JIT_NOACTION;
}

static bool is_moved(const struct ob_image *image)
{
	return image->address != image->linked;
}

/* Without memory there are no symbols. */
void ob_debugger_add(struct ob_image *image)
{
	struct ob_debugger_entry *entry;

	if (!has_sections(image->file.bytes, image->file.size))
		return;
	entry = calloc(1, sizeof(*entry));
	if (entry)
		entry->code.size = image->file.size;
	if (entry && is_moved(image))
		entry->copy = moved_copy(image, &entry->code.size);
	if (!entry || (is_moved(image) && !entry->copy)) {
		free(entry);
		return;
	}
	entry->code.file = is_moved(image) ? entry->copy : image->file.bytes;
	entry->code.next = __jit_debug_descriptor.first;
	if (entry->code.next)
		entry->code.next->previous = &entry->code;
	__jit_debug_descriptor.first = &entry->code;
	image->debugger = entry;
	tell(JIT_REGISTER, &entry->code);
}

void ob_debugger_remove(struct ob_image *image)
{
	struct ob_debugger_entry *entry = image->debugger;

	if (!entry)
		return;
	if (entry->code.previous)
		entry->code.previous->next = entry->code.next;
	else
		__jit_debug_descriptor.first = entry->code.next;
	if (entry->code.next)
		entry->code.next->previous = entry->code.previous;
	tell(JIT_UNREGISTER, &entry->code);
	free(entry->copy);
	free(entry);
	image->debugger = NULL;
}

void ob_debugger_forget(void)
{
	while (__jit_debug_descriptor.first) {
		struct jit_code_entry *entry = __jit_debug_descriptor.first;

		__jit_debug_descriptor.first = entry->next;
		tell(JIT_UNREGISTER, entry);
	}
}
