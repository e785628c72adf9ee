/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Spaces: what user code sees of an mm. It is a cache of the page tables (V12).
 *
 *   whose mm                  context.space     filled and emptied by
 *   the local clients'        &ob_local_space   mmu.c, in the client window
 *   a program's               &context.own      space_map.c, by the host's group spaces
 *   init's, other processes'  NULL              nobody: nothing is shown
 */
#ifndef OUTBOARD_CORE_SPACE_H
#define OUTBOARD_CORE_SPACE_H

#include <linux/mm_types.h>
#include <linux/types.h>

/* The client window, for the mm of the local clients. */
extern struct ob_space ob_local_space;

/* space_map.c */
int ob_space_make(struct mm_struct *mm);
void ob_space_show(struct mm_struct *mm, unsigned long address, pte_t *p, unsigned int count);
void ob_space_show_begin(unsigned long address);
bool ob_space_show_what_is_there(struct vm_area_struct *vma, unsigned long address, bool write);
void ob_space_show_end(struct mm_struct *mm);
void ob_space_hide(struct mm_struct *mm, unsigned long start, unsigned long end);

#endif
