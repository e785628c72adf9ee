// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading components: unmodified modules, relocated into the modules window, which is near enough
 * to the kernel's text for 32-bit displacements. Without a window they are in RAM, if the host can
 * execute that.
 *
 * Relocation types are those of the System V ABI for AMD64. A module has no global offset table. So
 * an instruction that would load an address from one is changed to compute the address, as linkers
 * do.
 */
#include <linux/elf.h>
#include <linux/execmem.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/moduleloader.h>
#include <linux/unaligned.h>
#include <asm/page.h>
#include <asm/vcpu.h>

/* What the architecture's headers make modules use. */
EXPORT_SYMBOL(ob_layout);
EXPORT_SYMBOL(memcpy);
EXPORT_SYMBOL(memmove);
EXPORT_SYMBOL(memset);
#ifdef CONFIG_KASAN
EXPORT_SYMBOL(__memcpy);
EXPORT_SYMBOL(__memmove);
EXPORT_SYMBOL(__memset);
#else
EXPORT_SYMBOL(memcmp);
EXPORT_SYMBOL(strlen);
#endif

#ifdef CONFIG_MMU
static struct execmem_info ob_execmem;

/* On a host that cannot map, vmalloc.c decides where modules are, if anywhere. */
#define OB_NO_WINDOW PAGE_SIZE

struct execmem_info __init *execmem_arch_setup(void)
{
	ob_execmem.ranges[EXECMEM_DEFAULT] = (struct execmem_range) {
		.start = MODULES_VADDR ?: OB_NO_WINDOW,
		.end = MODULES_END ?: OB_NO_WINDOW,
		.pgprot = PAGE_KERNEL_EXEC,
		.alignment = 1,
	};
	return &ob_execmem;
}
#endif

/* mov symbol@gotpcrel(%rip), %reg  ->  lea symbol(%rip), %reg */
static int ob_relax_got(u8 *displacement, s64 relative)
{
	if (displacement[-2] != 0x8b)
		return -ENOEXEC;
	if (relative != (s32)relative)
		return -ERANGE;
	displacement[-2] = 0x8d;
	put_unaligned((u32)relative, (u32 *)displacement);
	return 0;
}

static int ob_relocate(u8 *place, unsigned int type, u64 value)
{
	s64 relative = value - (u64)place;

	switch (type) {
	case R_X86_64_NONE:
		return 0;
	case R_X86_64_64:
		put_unaligned(value, (u64 *)place);
		return 0;
	case R_X86_64_PC64:
		put_unaligned((u64)relative, (u64 *)place);
		return 0;
	case R_X86_64_PC32:
	case R_X86_64_PLT32:
		if (relative != (s32)relative)
			return -ERANGE;
		put_unaligned((u32)relative, (u32 *)place);
		return 0;
	case R_X86_64_GOTPCREL:
	case R_X86_64_GOTPCRELX:
	case R_X86_64_REX_GOTPCRELX:
		return ob_relax_got(place, relative);
	default:
		return -ENOEXEC;
	}
}

int apply_relocate_add(Elf64_Shdr *sections, const char *strings, unsigned int symbol_section,
		       unsigned int section, struct module *module)
{
	Elf64_Shdr *relocations = &sections[section];
	Elf64_Rela *entry = (void *)relocations->sh_addr;
	Elf64_Rela *end = entry + relocations->sh_size / sizeof(*entry);
	u8 *target = (void *)sections[relocations->sh_info].sh_addr;
	Elf64_Sym *symbols = (void *)sections[symbol_section].sh_addr;

	for (; entry < end; entry++) {
		Elf64_Sym *symbol = &symbols[ELF64_R_SYM(entry->r_info)];
		unsigned int type = ELF64_R_TYPE(entry->r_info);
		int error = ob_relocate(target + entry->r_offset, type,
					symbol->st_value + entry->r_addend);

		if (error) {
			pr_err("%s: relocation of type %u against %s: error %d\n", module->name,
			       type, strings + symbol->st_name, error);
			return error;
		}
	}
	return 0;
}
