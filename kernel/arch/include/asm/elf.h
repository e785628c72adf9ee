/* SPDX-License-Identifier: GPL-2.0-only */
/* Modules and programs are ELF objects of the host's machine. */
#ifndef _ASM_OUTBOARD_ELF_H
#define _ASM_OUTBOARD_ELF_H

#include <asm/ptrace.h>

#define ELF_ARCH EM_X86_64
#define ELF_CLASS ELFCLASS64
#define ELF_DATA ELFDATA2LSB
#define elf_check_arch(header) ((header)->e_machine == EM_X86_64)
#define ELF_EXEC_PAGESIZE PAGE_SIZE
#define ELF_ET_DYN_BASE (TASK_SIZE / 3 * 2)
#define ELF_HWCAP ob_elf_hwcap()
#define ELF_PLATFORM "x86_64"
#define CORE_DUMP_USE_REGSET
#define SET_PERSONALITY(header) set_personality(PER_LINUX | (current->personality & ~PER_MASK))

/* A signal frame has the processor's vector registers. The program may have no [vdso]. */
#define ARCH_DLINFO							\
do {									\
	unsigned long vdso = ob_vdso_address();				\
									\
	NEW_AUX_ENT(AT_MINSIGSTKSZ, ob_signal_frame_size());		\
	if (vdso)							\
		NEW_AUX_ENT(AT_SYSINFO_EHDR, vdso);			\
} while (0)

#ifndef __ASSEMBLY__
unsigned long ob_elf_hwcap(void);		/* core/space_task.c */
unsigned long ob_signal_frame_size(void);	/* core/space_signal.c */

/* core/vdso.c */
struct linux_binprm;
#define ARCH_HAS_SETUP_ADDITIONAL_PAGES 1
int arch_setup_additional_pages(struct linux_binprm *program, int has_interpreter);
unsigned long ob_vdso_address(void);

/* Only a task that was made for a program can run one. */
struct arch_elf_state { };
#define INIT_ARCH_ELF_STATE { }
#define arch_elf_pt_proc(header, segment, file, is_interpreter, state) (0)
#define arch_check_elf(header, has_interpreter, interpreter, state) \
	(current->thread.program ? 0 : -ENOEXEC)
#endif

/* In a core dump: core/space_regset.c */
typedef unsigned long elf_greg_t;
#define ELF_NGREG 27
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
