/* SPDX-License-Identifier: GPL-2.0-only */
/* How a vCPU's threads end: stop.c. */
#ifndef OUTBOARD_CORE_STOP_H
#define OUTBOARD_CORE_STOP_H

#include <linux/types.h>

void ob_thread_leaves(u32 *left);
void ob_stop_vcpus(void);
bool ob_join_threads(void);

#endif
