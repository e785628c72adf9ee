/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The shadow of KASAN: a byte for each eight of the address space, at a fixed
 * address, from the host (OB_REGION_SHADOW). core/kasan.c
 */
#ifndef _ASM_OUTBOARD_KASAN_H
#define _ASM_OUTBOARD_KASAN_H

#include <linux/const.h>
#include <linux/types.h>

#define KASAN_SHADOW_OFFSET _AC(CONFIG_KASAN_SHADOW_OFFSET, UL)
#define KASAN_SHADOW_SCALE_SHIFT 3

#define OB_ADDRESS_BITS 47
#define KASAN_SHADOW_START KASAN_SHADOW_OFFSET
#define KASAN_SHADOW_SIZE (_AC(1, UL) << (OB_ADDRESS_BITS - KASAN_SHADOW_SCALE_SHIFT))
#define KASAN_SHADOW_END (KASAN_SHADOW_START + KASAN_SHADOW_SIZE)

/*
 * Kernel code also runs before the boot, after the end and in forked children: unchecked there.
 */
extern bool ob_kasan_ready;
#define kasan_arch_is_ready() (ob_kasan_ready)

/*
 * Values that are no address of the host's user space have no shadow: offsets from the segment
 * register, which old compilers check like addresses, and wild pointers, whose use faults. For all
 * of them this returns a shadow that is never poisoned.
 */
#define kasan_mem_to_shadow kasan_mem_to_shadow
static inline void *kasan_mem_to_shadow(const void *address)
{
	unsigned long within = (unsigned long)address & ((1UL << OB_ADDRESS_BITS) - 1);

	return (void *)((within >> KASAN_SHADOW_SCALE_SHIFT) + KASAN_SHADOW_OFFSET);
}
#endif
