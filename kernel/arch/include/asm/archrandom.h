/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_ARCHRANDOM_H
#define _ASM_OUTBOARD_ARCHRANDOM_H

#include <linux/types.h>
#include <asm/host.h>

static inline size_t __must_check arch_get_random_longs(unsigned long *v, size_t count)
{
	return ob_host_random(ob_host, v, count * sizeof(*v)) ? 0 : count;
}

static inline size_t __must_check arch_get_random_seed_longs(unsigned long *v, size_t count)
{
	return arch_get_random_longs(v, count);
}
#endif
