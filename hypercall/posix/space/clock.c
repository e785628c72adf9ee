// SPDX-License-Identifier: GPL-2.0-only
/*
 * Code with which user code reads the host's clocks: the vDSO, which the host maps into each
 * process. It is the same file for all.
 */
#include <elf.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include "space.h"

#define FUNCTION "__vdso_clock_gettime"

struct symbols {
	const char *file;
	const Elf64_Sym *table;
	const char *names;
	const uint32_t *hash;		/* its second word is the number of symbols */
};

/* A segment of the file, by its type; NULL: none. */
static const Elf64_Phdr *find_segment(const char *file, uint32_t type)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
	const Elf64_Phdr *segments = (const Elf64_Phdr *)(file + header->e_phoff);

	for (int i = 0; i < header->e_phnum; i++)
		if (segments[i].p_type == type)
			return &segments[i];
	return NULL;
}

static bool find_symbols(const char *file, struct symbols *found)
{
	const Elf64_Phdr *dynamic = find_segment(file, PT_DYNAMIC);
	const Elf64_Dyn *entry;

	if (!dynamic)
		return false;
	*found = (struct symbols){ .file = file };
	for (entry = (const Elf64_Dyn *)(file + dynamic->p_offset); entry->d_tag != DT_NULL;
	     entry++) {
		const char *at = file + entry->d_un.d_ptr;

		if (entry->d_tag == DT_SYMTAB)
			found->table = (const Elf64_Sym *)at;
		else if (entry->d_tag == DT_STRTAB)
			found->names = at;
		else if (entry->d_tag == DT_HASH)
			found->hash = (const uint32_t *)at;
	}
	return found->table && found->names && found->hash;
}

uint64_t ob_clock_offset(void)
{
	const char *file = (const char *)getauxval(AT_SYSINFO_EHDR);
	struct symbols symbols;

	if (!file || !find_symbols(file, &symbols))
		return 0;
	for (uint32_t i = 0; i < symbols.hash[1]; i++)
		if (!strcmp(symbols.names + symbols.table[i].st_name, FUNCTION))
			return symbols.table[i].st_value;
	return 0;
}
