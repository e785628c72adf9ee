/* SPDX-License-Identifier: GPL-2.0-only */
/* Signals for tasks whose threads are out: default_signal.c. */
#ifndef OUTBOARD_CORE_DEFAULT_SIGNAL_H
#define OUTBOARD_CORE_DEFAULT_SIGNAL_H

#include <linux/types.h>

struct task_struct;

bool ob_work_pends(struct task_struct *task);
void ob_default_signals_take(void);
void ob_signals_recall(void);

#endif
