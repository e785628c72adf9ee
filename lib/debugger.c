// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shows the symbols of the loaded kernel image to debuggers, by gdb's interface for code that is
 * made at run time ("JIT Compilation Interface" in gdb's manual). gdb finds the two names below in
 * the program or library, live or in a core dump, and reads the ELF file that they lead to.
 *
 * gdb takes the addresses in that file as they are. An image that is not where it was linked to
 * gets a copy with the right ones.
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

static struct jit_code_entry entry;
static char *copy;

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

static void move_sections(char *file, uint64_t size, uint64_t distance)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
	Elf64_Shdr *sections = (Elf64_Shdr *)(file + header->e_shoff);
	Elf64_Phdr *segments = (Elf64_Phdr *)(file + header->e_phoff);

	for (int i = 0; i < header->e_phnum; i++)
		segments[i].p_vaddr += distance;
	for (int i = 0; i < header->e_shnum; i++) {
		if (sections[i].sh_flags & SHF_ALLOC)
			sections[i].sh_addr += distance;
		if (sections[i].sh_type == SHT_SYMTAB && sections[i].sh_offset % 8 == 0 &&
		    is_inside(sections[i].sh_offset, sections[i].sh_size, size))
			move_symbols(file, &sections[i], distance);
	}
}

static const char *moved_copy(const struct ob_image *image)
{
	const Elf64_Phdr *first = NULL;
	const Elf64_Ehdr *header;

	copy = malloc(image->file.size);
	if (!copy)
		return NULL;
	memcpy(copy, image->file.bytes, image->file.size);
	header = (const Elf64_Ehdr *)copy;
	for (int i = 0; i < header->e_phnum && (!first || first->p_type != PT_LOAD); i++)
		first = (const Elf64_Phdr *)(copy + header->e_phoff) + i;
	move_sections(copy, image->file.size, image->address - (first->p_vaddr & ~4095ull));
	return copy;
}

void ob_debugger_add(const struct ob_image *image)
{
	if (!has_sections(image->file.bytes, image->file.size))
		return;
	entry.file = image->moved ? moved_copy(image) : image->file.bytes;
	entry.size = image->file.size;
	if (!entry.file)
		return;
	__jit_debug_descriptor.first = &entry;
	__jit_debug_descriptor.relevant = &entry;
	__jit_debug_descriptor.action = JIT_REGISTER;
	__jit_debug_register_code();
	__jit_debug_descriptor.action = JIT_NOACTION;
}

void ob_debugger_remove(void)
{
	if (!entry.file)
		return;
	__jit_debug_descriptor.first = NULL;
	__jit_debug_descriptor.relevant = &entry;
	__jit_debug_descriptor.action = JIT_UNREGISTER;
	__jit_debug_register_code();
	__jit_debug_descriptor.action = JIT_NOACTION;
	free(copy);
	copy = NULL;
	entry.file = NULL;
}
