/* SPDX-License-Identifier: GPL-2.0-only */
/* All registers of user code: registers.S fills them, waits, and stores what it finds. */
#ifndef OUTBOARD_TESTS_REGISTERS_H
#define OUTBOARD_TESTS_REGISTERS_H

#include <stdint.h>

/* The order is known to registers.S. */
struct registers {
	uint8_t vectors[32][64];	/* xmm, ymm or zmm: the first bytes of each */
	uint64_t masks[8];		/* k0 to k7 */
	uint64_t general[14];		/* rax rbx rcx rdx rsi r8 to r15 rbp */
	uint64_t red_zone[16];
	uint64_t flags;
	uint8_t x87[10];		/* top of the stack */
	uint16_t x87_control;
	uint32_t mxcsr;
} __attribute__((aligned(64)));

/* Which vector registers there are. */
enum width { WIDTH_128, WIDTH_256, WIDTH_512 };

/*
 * Loads all registers, counts down from `turns`, and stores them. rsp and rdi stay the same; the
 * function counts in memory, by instructions that change no flag.
 */
void registers_keep(const struct registers *load, struct registers *store, uint64_t turns,
		    enum width width);

#endif
