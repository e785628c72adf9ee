/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls that end early: eintr.c. */
#ifndef OUTBOARD_CORE_EINTR_H
#define OUTBOARD_CORE_EINTR_H

void ob_eintr_run(void);

#endif
