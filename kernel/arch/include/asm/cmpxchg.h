/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_OUTBOARD_CMPXCHG_H
#define _ASM_OUTBOARD_CMPXCHG_H

#include <linux/types.h>

#define arch_xchg(ptr, value)							\
({										\
	__typeof__(ptr) __target = (ptr);					\
	(__typeof__(*(ptr)))__atomic_exchange_n(__target,			\
		(__typeof__(*(ptr)))(value), __ATOMIC_SEQ_CST);			\
})

#define arch_cmpxchg(ptr, old, new)						\
({										\
	__typeof__(ptr) __target = (ptr);					\
	__typeof__(*(ptr)) __seen = (__typeof__(*(ptr)))(old);			\
	__atomic_compare_exchange_n(__target, &__seen,				\
		(__typeof__(*(ptr)))(new), false,				\
		__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);				\
	__seen;									\
})

#define arch_try_cmpxchg(ptr, pold, new)					\
	__atomic_compare_exchange_n((ptr), (__typeof__(*(ptr)) *)(pold),	\
		(__typeof__(*(ptr)))(new), false,				\
		__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

#define arch_cmpxchg64 arch_cmpxchg
#define arch_cmpxchg_local arch_cmpxchg
#define arch_cmpxchg64_local arch_cmpxchg
#define arch_try_cmpxchg64 arch_try_cmpxchg
#endif
