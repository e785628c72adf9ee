/* SPDX-License-Identifier: GPL-2.0-only */
/* The end of a client's task: thread.c. */
#ifndef OUTBOARD_CORE_THREAD_H
#define OUTBOARD_CORE_THREAD_H

void ob_task_exit(void);

#endif
