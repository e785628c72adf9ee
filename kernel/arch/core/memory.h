/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OUTBOARD_CORE_MEMORY_H
#define OUTBOARD_CORE_MEMORY_H

#include <linux/sizes.h>

/*
 * The memory with which every kernel starts, whatever its ceiling; each vCPU beyond the eighth adds
 * to that. KASAN takes a table of 16 MB at boot.
 */
#define OB_MEMORY_AT_BOOT (IS_ENABLED(CONFIG_KASAN) ? SZ_64M : SZ_16M)
#define OB_MEMORY_PER_VCPU SZ_1M
#define OB_VCPUS_FREE 8

/* Memory comes and goes in units of 16 MB; where there is little of it, of 4 MB. */
#define OB_MEMORY_UNIT SZ_16M
#define OB_MEMORY_UNIT_SMALL SZ_4M
#define OB_MEMORY_IS_LITTLE SZ_64M

/* Memory that the kernel asks the host for at a time. */
#define OB_MEMORY_STEP SZ_4M

/* The least ceiling that a kernel boots with: one that has no disks needs less, KASAN more. */
#define OB_MEMORY_LEAST							\
	(IS_ENABLED(CONFIG_KASAN) ? SZ_32M : IS_ENABLED(CONFIG_BLOCK) ? SZ_16M : SZ_4M)

/* Part of the ceiling that each vCPU needs. */
#define OB_MEMORY_FOR_VCPU SZ_512K

void ob_memory_setup(void);
u64 ob_memory_ceiling(u64 memory);
u64 ob_memory_at_boot(void);

#ifdef CONFIG_PAGE_REPORTING
extern bool ob_memory_is_reported;
#else
#define ob_memory_is_reported false
#endif

#endif
