/* SPDX-License-Identifier: GPL-2.0-only */
/* Modules are ELF objects of the host's machine; programs are not loaded. */
#ifndef _ASM_OUTBOARD_ELF_H
#define _ASM_OUTBOARD_ELF_H

#include <asm/ptrace.h>

#define ELF_ARCH EM_X86_64
#define ELF_CLASS ELFCLASS64
#define ELF_DATA ELFDATA2LSB
#define elf_check_arch(header) ((header)->e_machine == EM_X86_64)
#define ELF_EXEC_PAGESIZE PAGE_SIZE
#define ELF_ET_DYN_BASE 0
#define ELF_HWCAP 0
#define ELF_PLATFORM NULL
#define CORE_DUMP_USE_REGSET
#define SET_PERSONALITY(header) set_personality(PER_LINUX)

typedef unsigned long elf_greg_t;
#define ELF_NGREG 16
typedef elf_greg_t elf_gregset_t[ELF_NGREG];
typedef struct { int unused; } elf_fpregset_t;

/* The System V ABI for AMD64, table "Relocation Types". */
#define R_X86_64_NONE 0
#define R_X86_64_64 1
#define R_X86_64_PC32 2
#define R_X86_64_PLT32 4
#define R_X86_64_GOTPCREL 9
#define R_X86_64_32 10
#define R_X86_64_32S 11
#define R_X86_64_PC64 24
#define R_X86_64_GOTPCRELX 41
#define R_X86_64_REX_GOTPCRELX 42
#endif
