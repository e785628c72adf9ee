/* SPDX-License-Identifier: GPL-2.0-only */
/* Exit work and signals of clients: signal.c. */
#ifndef OUTBOARD_CORE_SIGNAL_H
#define OUTBOARD_CORE_SIGNAL_H

#include <linux/types.h>

struct sigaction;

bool ob_signal_work(long *result);
void ob_signals_ignore(void);
long ob_sys_rt_sigaction(int number, const struct sigaction __user *action, struct sigaction __user *before,
			 size_t size);

#endif
