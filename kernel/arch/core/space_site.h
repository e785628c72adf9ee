/* SPDX-License-Identifier: GPL-2.0-only */
/* Rewritten call sites of programs. */
#ifndef OUTBOARD_CORE_SPACE_SITE_H
#define OUTBOARD_CORE_SPACE_SITE_H

#include <linux/mm_types.h>
#include <linux/types.h>

struct pt_regs;
struct ob_space_event;

/* The bytes before the instruction `syscall` that a jump replaces, and with that instruction. */
#define OB_SITE_JUMP 5
#define OB_SITE_BYTES 7

/* space_site.c */
void ob_sites_setup(void);
bool ob_sites_are_possible(void);
void ob_site_rewrite(unsigned long site, const u8 *own);
void ob_sites_leave(struct pt_regs *regs, struct ob_space_event *event);
void ob_sites_restore(struct mm_struct *mm);
void ob_sites_change(unsigned long start, unsigned long size, bool moves);

/* space_site_proof.c */
void ob_site_trapped(const struct pt_regs *regs);

#endif
