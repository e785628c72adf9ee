/* SPDX-License-Identifier: GPL-2.0-only */
/* New kernel mappings are shown to the host ahead of their use (core/mmu.c). */
#ifndef _ASM_OUTBOARD_CACHEFLUSH_H
#define _ASM_OUTBOARD_CACHEFLUSH_H

#ifdef CONFIG_MMU
void ob_kernel_map(unsigned long start, unsigned long end);

#define flush_cache_vmap(start, end) ob_kernel_map(start, end)
#define flush_cache_vmap_early(start, end) ob_kernel_map(start, end)
#endif

#include <asm-generic/cacheflush.h>
#endif
