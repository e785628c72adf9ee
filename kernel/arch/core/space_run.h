/* SPDX-License-Identifier: GPL-2.0-only */
/* The loop of a program: space_run.c. */
#ifndef OUTBOARD_CORE_SPACE_RUN_H
#define OUTBOARD_CORE_SPACE_RUN_H

#ifdef CONFIG_MMU
void __noreturn ob_program_run(void);
#else
static inline void ob_program_run(void)
{
}
#endif

#endif
