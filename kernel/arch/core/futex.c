// SPDX-License-Identifier: GPL-2.0-only
/*
 * Futexes in the program's own memory. Such a word has no struct page, so a shared futex has no
 * key. But all clients share one address space, so the address will do: the futex is made private.
 */
#include <linux/mutex.h>
#include <linux/futex.h>
#include <linux/syscalls.h>
#include <asm/page.h>
#include "futex.h"

static int ob_futex_private(u32 __user *word, int op)
{
#ifdef CONFIG_MMU
	unsigned long address = (unsigned long)word;

	/* All memory of a program has pages. */
	if (current->thread.apart)
		return op;
	if (address >= ob_layout.client && address < ob_layout.client_end)
		return op;
#endif
	return op | FUTEX_PRIVATE_FLAG;
}

long ob_sys_futex(u32 __user *word, int op, u32 value,
		  const struct __kernel_timespec __user *timeout, u32 __user *word2, u32 value3)
{
	return sys_futex(word, ob_futex_private(word, op), value, timeout, word2, value3);
}

/*
 * The kernel's own wake-ups at a task's exit come through here.
 *
 * Dodge do_futex: futex words outside of the client window have no page; they are private futexes.
 */
long __real_do_futex(u32 __user *word, int op, u32 value, ktime_t *timeout, u32 __user *word2,
		     u32 value2, u32 value3);
long __wrap_do_futex(u32 __user *word, int op, u32 value, ktime_t *timeout, u32 __user *word2,
		     u32 value2, u32 value3);

long __wrap_do_futex(u32 __user *word, int op, u32 value, ktime_t *timeout, u32 __user *word2,
		     u32 value2, u32 value3)
{
	return __real_do_futex(word, ob_futex_private(word, op), value, timeout, word2, value2,
			       value3);
}
