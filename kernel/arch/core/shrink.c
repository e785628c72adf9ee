// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory is never removed. If adding some fails half-way, Linux calls this to undo its part, which
 * does no harm if it stays: nobody uses it, and nobody tries again.
 *
 * The function is defined without arguments, and without the header that declares it, because the
 * releases of 6.12 differ in their number.
 */
void arch_remove_memory(void);

void arch_remove_memory(void)
{
}
