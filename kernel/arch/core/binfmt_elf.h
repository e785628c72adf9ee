/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What only Linux's loader of programs, fs/binfmt_elf.c, needs of an architecture. The Makefile
 * includes it there: asm/elf.h is a part of each file of Linux.
 */
#ifndef OUTBOARD_CORE_BINFMT_ELF_H
#define OUTBOARD_CORE_BINFMT_ELF_H

struct linux_binprm;

/* core/vdso.c */
#define ARCH_HAS_SETUP_ADDITIONAL_PAGES 1
int arch_setup_additional_pages(struct linux_binprm *program, int has_interpreter);
unsigned long ob_vdso_address(void);

#include <linux/elf.h>

#define AT_SYSINFO_EHDR 33

/* A signal frame has the processor's vector registers. The program may have no [vdso]. */
#undef ARCH_DLINFO
#define ARCH_DLINFO							\
do {									\
	unsigned long vdso = ob_vdso_address();				\
									\
	NEW_AUX_ENT(AT_MINSIGSTKSZ, ob_signal_frame_size());		\
	if (vdso)							\
		NEW_AUX_ENT(AT_SYSINFO_EHDR, vdso);			\
} while (0)

#endif
