/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Futex words are in user memory. A client's are accessed in place, by atomic operations that may
 * fault; a program's in RAM, where its own code changes them, too.
 */
#ifndef _ASM_OUTBOARD_FUTEX_H
#define _ASM_OUTBOARD_FUTEX_H

#include <linux/futex.h>
#include <linux/uaccess.h>
#include <asm/errno.h>
#include <asm/extable.h>

int ob_program_cmpxchg(u32 *seen, unsigned long address, u32 old, u32 new);

static inline int futex_atomic_cmpxchg_inatomic(u32 *seen, u32 __user *word,
						u32 old, u32 new)
{
	int error = 0;

	if (ob_is_apart())
		return ob_program_cmpxchg(seen, (unsigned long)word, old, new);
	asm volatile("1:	lock; cmpxchgl %[new], %[word]\n"
		     "2:\n"
		     ".pushsection .fixup, \"ax\"\n"
		     "3:	movl %[fault], %[error]\n"
		     "	jmp 2b\n"
		     ".popsection\n"
		     OB_EXTABLE(1b, 3b)
		     : [error] "+r" (error), "+a" (old),
		       [word] "+m" (*(u32 __force *)word)
		     : [new] "r" (new), [fault] "i" (-EFAULT)
		     : "cc", "memory");
	*seen = old;
	return error;
}

static inline u32 ob_futex_result(int op, u32 value, u32 argument)
{
	switch (op) {
	case FUTEX_OP_ADD:
		return value + argument;
	case FUTEX_OP_OR:
		return value | argument;
	case FUTEX_OP_ANDN:
		return value & ~argument;
	case FUTEX_OP_XOR:
		return value ^ argument;
	default:
		return argument;
	}
}

static inline int arch_futex_atomic_op_inuser(int op, u32 argument, int *result,
					      u32 __user *word)
{
	u32 value, seen;
	int error;

	if (op > FUTEX_OP_XOR)
		return -ENOSYS;
	error = __get_user(value, word);
	while (!error) {
		error = futex_atomic_cmpxchg_inatomic(&seen, word, value,
						      ob_futex_result(op, value, argument));
		if (seen == value)
			break;
		value = seen;
	}
	*result = value;
	return error;
}
#endif
