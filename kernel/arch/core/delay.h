/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Between two steps of a protocol that others can take part in. In a kernel that checks itself, threads wait here at
 * random, so that every order of the steps happens: delay.c.
 */
#ifndef OUTBOARD_CORE_DELAY_H
#define OUTBOARD_CORE_DELAY_H

#include <linux/types.h>

#ifdef CONFIG_OUTBOARD_DELAYS
void ob_delay_point(void);

/* Shall what is allowed here, and rarely needed, be done now? */
bool ob_delay_chance(void);
#else
static inline void ob_delay_point(void)
{
}

static inline bool ob_delay_chance(void)
{
	return false;
}
#endif

#endif
