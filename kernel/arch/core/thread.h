/* SPDX-License-Identifier: GPL-2.0-only */
/* The end of a client's task, and code that may end it: thread.c. */
#ifndef OUTBOARD_CORE_THREAD_H
#define OUTBOARD_CORE_THREAD_H

#include <linux/types.h>

bool ob_run_apart(void (*function)(void *argument), void *argument);
void ob_task_exit(void);

#endif
