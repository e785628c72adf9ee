/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits that end, also if what they wait for never comes. */
#ifndef OUTBOARD_CORE_PATIENCE_H
#define OUTBOARD_CORE_PATIENCE_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <outboard/hypercall.h>
#include <outboard/patience.h>
#include <asm/host.h>

static inline struct ob_patience ob_patience_begin(u64 nanoseconds)
{
	return ob_patience_of(ob_host_clock_monotonic(ob_host), nanoseconds);
}

static inline bool ob_patience_is_over(struct ob_patience *patience)
{
	return ob_patience_ends(patience, ob_host_clock_monotonic(ob_host));
}

/*
 * How long a boot waits for Linux and its components, in nanoseconds. Debug kernels on busy hosts
 * take a minute.
 */
#define OB_BOOT_PATIENCE (60 * OB_PATIENCE)

/* Waits until the word has another value than `value`. False: it has not in that time. Blocks. */
static inline bool ob_changes_in_time(u32 *word, u32 value, u64 nanoseconds)
{
	struct ob_patience patience = ob_patience_begin(nanoseconds);

	while (READ_ONCE(*word) == value) {
		if (ob_patience_is_over(&patience))
			return false;
		ob_host_wait(ob_host, word, value, OB_PATIENCE_STEP);
	}
	return true;
}
#endif
