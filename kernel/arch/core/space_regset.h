/* SPDX-License-Identifier: GPL-2.0-only */
/* Registers of stopped programs, for debuggers and core dumps: space_regset.c. */
#ifndef OUTBOARD_CORE_SPACE_REGSET_H
#define OUTBOARD_CORE_SPACE_REGSET_H

#include <linux/types.h>

struct task_struct;
struct user_regset_view;

#ifdef CONFIG_MMU
enum { OB_REGSET_GENERAL, OB_REGSET_LEGACY, OB_REGSET_VECTOR };

/* In user_regs_struct. */
#define OB_USER_REGISTERS 27

const struct user_regset_view *ob_program_view(void);
unsigned long ob_user_register(struct task_struct *task, unsigned int place);
int ob_user_register_set(struct task_struct *task, unsigned int place, unsigned long value);
#else
static inline const struct user_regset_view *ob_program_view(void)
{
	return NULL;
}
#endif

#endif
