/* SPDX-License-Identifier: GPL-2.0-only */
/* Coroutines and their stacks: coroutine.c. */
#ifndef OUTBOARD_CORE_COROUTINE_H
#define OUTBOARD_CORE_COROUTINE_H

#include <linux/types.h>

void *ob_stack_alloc(void);
void ob_stack_free(void *stack);
void *ob_coroutine_prepare(void *stack, void (*entry)(void));
void ob_coroutine_switch(void **save, void *load);

/* Visits every stack that was ever used, until a visit returns an error. */
int ob_stacks_visit(int (*visit)(void *stack, size_t size));

#endif
