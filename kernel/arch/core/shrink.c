// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory is never removed. When adding some fails half-way, Linux wants to take back what it has
 * described: that is left as it is, since nobody uses it and there is no second try. The function
 * is defined without its arguments, and without the header that declares it, because releases of
 * 6.12 differ in how many there are.
 */
void arch_remove_memory(void);

void arch_remove_memory(void)
{
}
