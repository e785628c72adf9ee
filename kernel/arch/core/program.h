/* SPDX-License-Identifier: GPL-2.0-only */
/* Programs: unmodified binaries as processes of this kernel. program.c */
#ifndef OUTBOARD_CORE_PROGRAM_H
#define OUTBOARD_CORE_PROGRAM_H

#include <linux/errno.h>
#include <linux/types.h>

struct kernel_clone_args;
struct thread_struct;

/* Of a client: not copied yet. */
struct ob_program_call {
	const char *path;
	const char *const *arguments, *const *environment;
};

#ifdef CONFIG_MMU
long ob_program_start(void *call);
int ob_program_thread(struct thread_struct *thread, const struct kernel_clone_args *args);
bool ob_programs_exist(void);
unsigned int ob_programs_kill(int shown);
unsigned int ob_programs_end(void);
#else
static inline long ob_program_start(void *call)
{
	return -ENOSYS;
}

static inline int ob_program_thread(struct thread_struct *thread,
				    const struct kernel_clone_args *args)
{
	return 0;
}

static inline bool ob_programs_exist(void)
{
	return false;
}

static inline unsigned int ob_programs_end(void)
{
	return 0;
}
#endif

#endif
