/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits that end after OB_PATIENCE. */
#ifndef OUTBOARD_CORE_PATIENCE_H
#define OUTBOARD_CORE_PATIENCE_H

#include <linux/types.h>
#include <outboard/gate.h>
#include <asm/host.h>

/* When a wait that begins now ends. */
static inline u64 ob_patience_begin(void)
{
	return ob_host_clock_monotonic(ob_host) + OB_PATIENCE;
}

static inline bool ob_patience_is_over(u64 end)
{
	return ob_host_clock_monotonic(ob_host) >= end;
}
#endif
