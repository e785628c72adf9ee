/* SPDX-License-Identifier: GPL-2.0-only */
/* Instructions that may fault on a client's pointer, and where to go on then. */
#ifndef _ASM_OUTBOARD_EXTABLE_H
#define _ASM_OUTBOARD_EXTABLE_H

#ifdef __ASSEMBLY__
#define OB_EXTABLE(from, to)							\
	.pushsection __ex_table, "a";						\
	.balign 4;								\
	.long (from) - .;							\
	.long (to) - .;								\
	.popsection
#else
#define OB_EXTABLE(from, to)							\
	".pushsection __ex_table, \"a\"\n"					\
	".balign 4\n"								\
	".long (" #from ") - .\n"						\
	".long (" #to ") - .\n"							\
	".popsection\n"

#define ARCH_HAS_RELATIVE_EXTABLE

struct exception_table_entry {
	int insn, fixup;
};

struct pt_regs;
int fixup_exception(struct pt_regs *regs);
#endif
#endif
