/* SPDX-License-Identifier: GPL-2.0-only */
/* String operations a word at a time, also where the next page may be missing. */
#ifndef _ASM_OUTBOARD_WORD_AT_A_TIME_H
#define _ASM_OUTBOARD_WORD_AT_A_TIME_H

#include <asm-generic/word-at-a-time.h>

#ifdef CONFIG_DCACHE_WORD_ACCESS
#include <asm/extable.h>

/*
 * Loads the word at `address`. If the word reaches into a page that is not there, loads the aligned
 * word with its first byte instead, which cannot fault, and shifts it: the missing bytes are zero.
 */
static inline unsigned long load_unaligned_zeropad(const void *address)
{
	unsigned long word, aligned, shift;

	asm("1:	movq (%[address]), %[word]\n"
	    "2:\n"
	    ".pushsection .fixup, \"ax\"\n"
	    "3:	movq %[address], %[aligned]\n"
	    "	movq %[address], %[shift]\n"
	    "	andq $-8, %[aligned]\n"
	    "	andl $7, %k[shift]\n"
	    "	movq (%[aligned]), %[word]\n"
	    "	shll $3, %k[shift]\n"
	    "	shrq %%cl, %[word]\n"
	    "	jmp 2b\n"
	    ".popsection\n"
	    OB_EXTABLE(1b, 3b)
	    : [word] "=&r" (word), [aligned] "=&r" (aligned), [shift] "=&c" (shift)
	    : [address] "r" (address), "m" (*(const char (*)[8])address)
	    : "cc");
	return word;
}
#endif
#endif
