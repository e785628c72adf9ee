/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OUTBOARD_CORE_KASAN_H
#define OUTBOARD_CORE_KASAN_H

/*
 * Asks the host for the shadow. All accesses are checked from then on. Called after the address
 * space is laid out, before the kernel starts.
 */
#ifdef CONFIG_KASAN
int ob_kasan_setup(void);
#else
static inline int ob_kasan_setup(void)
{
	return 0;
}
#endif

#endif
