// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which system calls of programs are rewritten (space_site.c): those that trap often, and of which
 * the trap proves that the five bytes before the instruction `syscall` are one instruction that has
 * just run. There are two forms:
 *
 *   mov $number, %eax       b8 NN NN 00 00. The trap has that number in eax
 *   mov 8(%rsp), %r9        4c 8b 4c 24 08, as the last of the moves in the function syscall() of
 *                           the GNU C library, all of which must be there. The trap has that value
 *                           in r9
 *
 * In the first form, the byte b8 could also belong to a longer instruction:
 *
 *   it may be                       then                                 so the bytes before
 *   mov with a prefix               the prefix is 40 to 4f               are not these
 *   ModRM: a displacement from rax  the access is at twice the number,   are not lea, nop, prefetch
 *                                   and faults unless it is none         or a segment prefix
 *   SIB after such a ModRM          the access uses another register     are no such ModRM
 *
 * If it ends an instruction, its successors are instructions that access memory at rax, the number.
 * Nothing is mapped that low.
 */
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <linux/unaligned.h>
#include <asm/ptrace.h>
#include <asm/uaccess.h>
#include "space_site.h"

/* Traps of a site before it is rewritten: a page of code is copied for it. */
#define OB_SITE_TRAPS 16
#define OB_COUNTER_BITS 9

/* Of the code before a call, which is read at once. */
#define OB_CODE_BYTES 32

/* Sites that have trapped lately. Without a lock: a count may get lost. */
static struct ob_counter {
	unsigned long key;
	unsigned int traps;
} ob_counters[1 << OB_COUNTER_BITS];

static const u8 ob_syscall_function_code[] = {
	0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x48, 0x89, 0xca,
	0x4d, 0x89, 0xc2, 0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 0x08, 0x0f, 0x05,
};

static bool ob_may_precede_move(const u8 *before)
{
	u8 last = before[3];
	int i;

	for (i = 0; i < 4; i++)
		if (before[i] == 0x64 || before[i] == 0x65)
			return false;
	if ((last & 0xf0) == 0x40 || (last & 0xc7) == 0x84)
		return false;
	return last != 0x8d && last != 0x1f && last != 0x18 && last != 0x0d;
}

static bool ob_is_low_memory_mapped(void)
{
	struct vm_area_struct *first;
	bool is_mapped;

	mmap_read_lock(current->mm);
	first = find_vma(current->mm, 0);
	is_mapped = first && first->vm_start < SZ_4K;
	mmap_read_unlock(current->mm);
	return is_mapped;
}

/* `end`: behind the code of the call. */
static bool ob_is_move_of_number(const struct pt_regs *regs, const u8 *end)
{
	const u8 *site = end - OB_SITE_BYTES;
	u32 number = get_unaligned((const u32 *)(site + 1));

	return site[0] == 0xb8 && number < SZ_1K && number == regs->ax &&
	       end[-2] == 0x0f && end[-1] == 0x05 && ob_may_precede_move(site - 4) &&
	       !ob_is_low_memory_mapped();
}

static bool ob_is_syscall_function(const struct pt_regs *regs, const u8 *end)
{
	const unsigned long size = sizeof(ob_syscall_function_code);
	unsigned long argument;

	return !memcmp(end - size, ob_syscall_function_code, size) &&
	       !ob_program_read(&argument, regs->sp + 8, sizeof(argument)) &&
	       argument == regs->r9;
}

/* Returns whether the site has just trapped for the last time that it takes. */
static bool ob_site_counts(unsigned long site)
{
	unsigned long key = site ^ (unsigned long)current->mm;
	struct ob_counter *counter = &ob_counters[hash_long(key, OB_COUNTER_BITS)];

	if (READ_ONCE(counter->key) != key) {
		WRITE_ONCE(counter->key, key);
		WRITE_ONCE(counter->traps, 0);
	}
	WRITE_ONCE(counter->traps, counter->traps + 1);
	return counter->traps == OB_SITE_TRAPS;
}

/* The calling program makes a system call by a trap. May sleep. */
void ob_site_trapped(const struct pt_regs *regs)
{
	unsigned long site = regs->ip - OB_SITE_BYTES;
	u8 code[OB_CODE_BYTES];

	if (!ob_sites_are_possible() || !ob_site_counts(site) || regs->ip < sizeof(code) ||
	    regs->ip >= ob_layout.space_end)
		return;
	if (ob_program_read(code, regs->ip - sizeof(code), sizeof(code)))
		return;
	if (ob_is_move_of_number(regs, code + sizeof(code)) ||
	    ob_is_syscall_function(regs, code + sizeof(code)))
		ob_site_rewrite(site, code + sizeof(code) - OB_SITE_BYTES);
}
