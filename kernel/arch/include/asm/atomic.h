/* SPDX-License-Identifier: GPL-2.0-only */
/* Atomic variables by the compiler's own atomic operations. */
#ifndef _ASM_OUTBOARD_ATOMIC_H
#define _ASM_OUTBOARD_ATOMIC_H

#include <linux/types.h>
#include <asm/barrier.h>
#include <asm/cmpxchg.h>

#define ATOMIC64_INIT(i) { (i) }

#define arch_atomic_read(v) __READ_ONCE((v)->counter)
#define arch_atomic_set(v, i) __WRITE_ONCE((v)->counter, (i))
#define arch_atomic64_read(v) __READ_ONCE((v)->counter)
#define arch_atomic64_set(v, i) __WRITE_ONCE((v)->counter, (i))

#define OB_ATOMIC(family, number, type, operation)				\
static __always_inline void							\
arch_##family##_##operation(number i, type *v)					\
{										\
	(void)__atomic_fetch_##operation(&v->counter, i, __ATOMIC_SEQ_CST);	\
}										\
static __always_inline number							\
arch_##family##_fetch_##operation(number i, type *v)				\
{										\
	return __atomic_fetch_##operation(&v->counter, i, __ATOMIC_SEQ_CST);	\
}

#define OB_ATOMIC_RETURN(family, number, type, operation)			\
OB_ATOMIC(family, number, type, operation)					\
static __always_inline number							\
arch_##family##_##operation##_return(number i, type *v)				\
{										\
	return __atomic_##operation##_fetch(&v->counter, i, __ATOMIC_SEQ_CST);	\
}

#define OB_ATOMIC_FAMILY(family, number, type)					\
OB_ATOMIC_RETURN(family, number, type, add)					\
OB_ATOMIC_RETURN(family, number, type, sub)					\
OB_ATOMIC(family, number, type, and)						\
OB_ATOMIC(family, number, type, or)						\
OB_ATOMIC(family, number, type, xor)

OB_ATOMIC_FAMILY(atomic, int, atomic_t)
OB_ATOMIC_FAMILY(atomic64, s64, atomic64_t)

/* Announce what exists, so that the fallbacks are not used. */
#define arch_atomic_add_return arch_atomic_add_return
#define arch_atomic_sub_return arch_atomic_sub_return
#define arch_atomic_fetch_add arch_atomic_fetch_add
#define arch_atomic_fetch_sub arch_atomic_fetch_sub
#define arch_atomic_fetch_and arch_atomic_fetch_and
#define arch_atomic_fetch_or arch_atomic_fetch_or
#define arch_atomic_fetch_xor arch_atomic_fetch_xor
#define arch_atomic64_add_return arch_atomic64_add_return
#define arch_atomic64_sub_return arch_atomic64_sub_return
#define arch_atomic64_fetch_add arch_atomic64_fetch_add
#define arch_atomic64_fetch_sub arch_atomic64_fetch_sub
#define arch_atomic64_fetch_and arch_atomic64_fetch_and
#define arch_atomic64_fetch_or arch_atomic64_fetch_or
#define arch_atomic64_fetch_xor arch_atomic64_fetch_xor
#endif
