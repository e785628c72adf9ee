// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory is never removed; the function must exist. It is defined without its
 * arguments, and without the header that declares it, because releases of
 * 6.12 differ in how many there are.
 */
#include <linux/panic.h>

void arch_remove_memory(void);

void arch_remove_memory(void)
{
	panic("memory is never removed");
}
