/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Between two steps of a protocol that others can take part in. In a kernel that checks itself, threads wait here at
 * random, so that every order of the steps happens: delay.c.
 */
#ifndef OUTBOARD_CORE_DELAY_H
#define OUTBOARD_CORE_DELAY_H

#ifdef CONFIG_OUTBOARD_DELAYS
void ob_delay_point(void);
#else
static inline void ob_delay_point(void)
{
}
#endif

#endif
