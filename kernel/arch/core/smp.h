/* SPDX-License-Identifier: GPL-2.0-only */
/* vCPUs other than the first, and calls between vCPUs: smp.c. */
#ifndef OUTBOARD_CORE_SMP_H
#define OUTBOARD_CORE_SMP_H

void ob_secondary_start(void);
void ob_calls_run(void);

#endif
