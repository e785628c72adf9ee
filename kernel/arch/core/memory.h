/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef OUTBOARD_CORE_MEMORY_H
#define OUTBOARD_CORE_MEMORY_H

#include <linux/sizes.h>

/* What every kernel starts with, whatever its ceiling. */
#define OB_MEMORY_AT_BOOT SZ_16M

void ob_memory_setup(void);

#endif
