/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OUTBOARD_CORE_MEMORY_H
#define OUTBOARD_CORE_MEMORY_H

#include <linux/sizes.h>

/*
 * What every kernel starts with, whatever its ceiling; and what each vCPU adds to that beyond the first eight.
 * KASAN takes a table of 16 MB at boot.
 */
#define OB_MEMORY_AT_BOOT (IS_ENABLED(CONFIG_KASAN) ? SZ_64M : SZ_16M)
#define OB_MEMORY_PER_VCPU SZ_1M
#define OB_VCPUS_FREE 8

void ob_memory_setup(void);

#ifdef CONFIG_PAGE_REPORTING
extern bool ob_memory_is_reported;
#else
#define ob_memory_is_reported false
#endif

#endif
