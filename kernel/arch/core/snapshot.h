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
#endif

#endif
