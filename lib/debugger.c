// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shows the symbols of loaded kernel images to debuggers, by gdb's interface for code that is made
 * at run time ("JIT Compilation Interface" in gdb's manual). gdb finds the two names below in the
 * program or library, live or in a core dump, and reads the ELF file that they refer to.
 *
 * gdb uses the addresses in that file unchanged. An image that was moved is shown as a relocatable
 * file: there symbols count from their sections, so only the headers need other addresses. The
 * headers are before the file itself, which is mapped once more. Each image in use has an entry.
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

/* gdb sets a breakpoint here. */
void __jit_debug_register_code(void);
__attribute__((used, noinline)) void __jit_debug_register_code(void)
{
	__asm__ volatile("" : : : "memory");
}

struct ob_debugger_entry {
	struct jit_code_entry code;	/* first: gdb's list is of these */
};

static bool is_inside(uint64_t start, uint64_t size, uint64_t limit)
{
	return start <= limit && size <= limit - start;
}

/* Without a table of sections, or with a damaged one, an image has no symbols. */
static bool has_sections(const Elf64_Ehdr *header, uint64_t size)
{
	return header->e_shentsize == sizeof(Elf64_Shdr) && header->e_shoff % 8 == 0 &&
	       is_inside(header->e_shoff, header->e_shnum * sizeof(Elf64_Shdr), size);
}

/* The file has names of sections, and all headers fit before it. */
static bool is_whole(const Elf64_Ehdr *header, uint64_t size)
{
	const Elf64_Shdr *sections = (const Elf64_Shdr *)((const char *)header + header->e_shoff);
	const Elf64_Shdr *names = &sections[header->e_shstrndx];

	if (header->e_shstrndx >= header->e_shnum ||
	    !is_inside(names->sh_offset, names->sh_size, size) || !names->sh_size ||
	    ((const char *)header)[names->sh_offset + names->sh_size - 1])
		return false;
	for (int i = 0; i < header->e_shnum; i++)
		if (sections[i].sh_name >= names->sh_size)
			return false;
	return sizeof(*header) + header->e_shnum * sizeof(*sections) <= OB_DEBUGGER_BYTES;
}

static const Elf64_Shdr *find(const Elf64_Ehdr *header, const char *name)
{
	const char *file = (const char *)header;
	const Elf64_Shdr *sections = (const Elf64_Shdr *)(file + header->e_shoff);
	const char *names = file + sections[header->e_shstrndx].sh_offset;

	for (int i = 0; i < header->e_shnum; i++)
		if (!strcmp(names + sections[i].sh_name, name))
			return &sections[i];
	return NULL;
}

/* Moves a section. Sections that are neither in memory nor about symbols keep their place. */
static void move(Elf64_Shdr *section, const Elf64_Shdr *symbols, uint64_t distance)
{
	if (section->sh_type == SHT_SYMTAB)
		section->sh_offset = symbols->sh_offset;
	if (section->sh_type == SHT_RELA || section->sh_type == SHT_DYNAMIC)
		section->sh_type = SHT_PROGBITS;
	if (section->sh_flags & SHF_ALLOC)
		section->sh_addr += distance;
	section->sh_offset += OB_DEBUGGER_BYTES;
}

/* Fills in the headers before the file. False: no symbols can be shown. */
static bool show_moved(const struct ob_image *image)
{
	const Elf64_Ehdr *header = image->file.bytes;
	Elf64_Ehdr *new = (Elf64_Ehdr *)image->shown;
	Elf64_Shdr *sections = (Elf64_Shdr *)(new + 1);
	const Elf64_Shdr *symbols;

	if (!new || !is_whole(header, image->file.size))
		return false;
	symbols = find(header, "outboard_symbols");
	if (!symbols)
		return false;
	*new = *header;
	new->e_type = ET_REL;
	new->e_phoff = new->e_phnum = 0;
	new->e_shoff = sizeof(*new);
	memcpy(sections, (const char *)header + header->e_shoff,
	       header->e_shnum * sizeof(*sections));
	for (int i = 0; i < header->e_shnum; i++)
		move(&sections[i], symbols, image->address - image->linked);
	return true;
}

static void tell(enum jit_action action, struct jit_code_entry *entry)
{
	__jit_debug_descriptor.relevant = entry;
	__jit_debug_descriptor.action = action;
	__jit_debug_register_code();
	__jit_debug_descriptor.action = JIT_NOACTION;
}

/* Sets where debuggers find the image's file. */
static void locate(const struct ob_image *image, struct jit_code_entry *code)
{
	bool moved = image->address != image->linked;

	code->file = moved ? (const char *)image->shown : image->file.bytes;
	code->size = moved ? OB_DEBUGGER_BYTES + image->file.size : image->file.size;
}

/* If there is no memory, there are no symbols. */
void ob_debugger_add(struct ob_image *image)
{
	struct ob_debugger_entry *entry;

	if (!has_sections(image->file.bytes, image->file.size))
		return;
	if (image->address != image->linked && !show_moved(image))
		return;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return;
	locate(image, &entry->code);
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
