/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits that end, also if what they wait for never comes. */
#ifndef OUTBOARD_CORE_PATIENCE_H
#define OUTBOARD_CORE_PATIENCE_H

#include <linux/minmax.h>
#include <linux/time64.h>
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

/*
 * How long a boot waits for Linux and its components, in nanoseconds. Debug kernels on busy hosts
 * take a minute.
 */
#define OB_BOOT_PATIENCE (60 * OB_PATIENCE)

/* Waits until the word has another value than `value`. False: it has not in that time. Blocks. */
static inline bool ob_changes_in_time(u32 *word, u32 value, u64 nanoseconds)
{
	u64 end = ob_host_clock_monotonic(ob_host) + nanoseconds, now;

	while (READ_ONCE(*word) == value) {
		now = ob_host_clock_monotonic(ob_host);
		if (now >= end)
			return false;
		ob_host_wait(ob_host, word, value, min(end - now, (u64)NSEC_PER_SEC));
	}
	return true;
}
#endif
