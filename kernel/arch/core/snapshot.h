/* SPDX-License-Identifier: GPL-2.0-only */
/* Saving a booted kernel, and starting from what was saved: snapshot.c. */
#ifndef OUTBOARD_CORE_SNAPSHOT_H
#define OUTBOARD_CORE_SNAPSHOT_H

#include <linux/errno.h>
#include <linux/types.h>

struct ob_boot_parameters;
struct ob_info;

#ifdef CONFIG_OUTBOARD_SNAPSHOT
int ob_snapshot_start(const struct ob_boot_parameters *parameters,
		      const struct ob_info *info);
int ob_snapshot_take(void);
void ob_snapshot_renew(void);

/* renew.c: before the kernel is saved, notes what has to be renewed. Blocks. */
void ob_secrets_prepare(void);

/*
 * renew.c: renews all secrets that Linux chose before the snapshot and on which nothing depends.
 * Blocks.
 */
void ob_renew_secrets(void);
#else
static inline int ob_snapshot_start(const struct ob_boot_parameters *parameters,
		      const struct ob_info *info)
{
	return -ENOENT;
}

static inline int ob_snapshot_take(void)
{
	return 0;
}

static inline void ob_snapshot_renew(void)
{
}

static inline void ob_secrets_prepare(void)
{
}
#endif

/* time.c: the wall clock is the host's again. */
void ob_renew_wall_clock(void);

/* coroutine.c: visits every stack that was ever used, until a visit returns an error. */
int ob_stacks_visit(int (*visit)(void *stack, size_t size));

/*
 * mmu.c: visits every page in a window of the kernel, until a visit returns an error.
 */
typedef int ob_page_visit(unsigned long address, u64 physical, u32 protection);
int ob_window_visit(unsigned long start, unsigned long end, ob_page_visit *visit);

#endif
