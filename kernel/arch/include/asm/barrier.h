/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * x86-64 orders all but a store before a later load. Accesses of write-combining device memory have
 * no order: mb(), rmb() and wmb() order these, too.
 */
#ifndef _ASM_OUTBOARD_BARRIER_H
#define _ASM_OUTBOARD_BARRIER_H

#define __mb() asm volatile("mfence" ::: "memory")
#define __rmb() asm volatile("lfence" ::: "memory")
#define __wmb() asm volatile("sfence" ::: "memory")
#define __dma_rmb() barrier()
#define __dma_wmb() barrier()
#define __smp_mb() asm volatile("lock; addl $0, -4(%%rsp)" ::: "memory", "cc")
#define __smp_rmb() barrier()
#define __smp_wmb() barrier()

#define __smp_store_mb(var, value)						\
	((void)__atomic_exchange_n(&(var), (value), __ATOMIC_SEQ_CST))

#define __smp_store_release(p, v)						\
do {										\
	compiletime_assert_atomic_type(*p);					\
	barrier();								\
	WRITE_ONCE(*p, v);							\
} while (0)

#define __smp_load_acquire(p)							\
({										\
	__unqual_scalar_typeof(*p) __value = READ_ONCE(*p);			\
	compiletime_assert_atomic_type(*p);					\
	barrier();								\
	(typeof(*p))__value;							\
})

#define __smp_mb__before_atomic() barrier()
#define __smp_mb__after_atomic() barrier()

#include <asm-generic/barrier.h>
#endif
