/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Delay points, between two steps of a protocol with other threads. In a kernel that checks itself
 * (DEBUG=1), threads wait here at random, so that every order of the steps happens.
 */
#ifndef OUTBOARD_CORE_DELAY_H
#define OUTBOARD_CORE_DELAY_H

#include <linux/types.h>

#ifdef CONFIG_OUTBOARD_DELAYS
void ob_delay_point(void);
#else
static inline void ob_delay_point(void)
{
}
#endif

#endif
