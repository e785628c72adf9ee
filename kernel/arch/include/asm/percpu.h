/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Per-CPU variables. A task stays on its vCPU until it calls the scheduler, so
 * it is enough that each operation is one instruction: an interrupt (also one
 * that comes as a signal, V6) then sees it before or after, never within.
 */
#ifndef _ASM_OUTBOARD_PERCPU_H
#define _ASM_OUTBOARD_PERCPU_H

#include <asm/vcpu.h>

#define __my_cpu_offset (ob_this_thread->percpu_offset)

#define ob_percpu_op(suffix, pcp, value, op)					\
	asm volatile(op suffix " %1, %0"					\
		     : "+m" (*raw_cpu_ptr(&(pcp)))				\
		     : "re" ((typeof(pcp))(value)) : "cc")

#define ob_percpu_op_byte(pcp, value, op)					\
	asm volatile(op "b %1, %0"						\
		     : "+m" (*raw_cpu_ptr(&(pcp)))				\
		     : "qi" ((u8)(unsigned long)(value)) : "cc")

#define this_cpu_add_1(pcp, value) ob_percpu_op_byte(pcp, value, "add")
#define this_cpu_add_2(pcp, value) ob_percpu_op("w", pcp, value, "add")
#define this_cpu_add_4(pcp, value) ob_percpu_op("l", pcp, value, "add")
#define this_cpu_add_8(pcp, value) ob_percpu_op("q", pcp, value, "add")
#define this_cpu_and_1(pcp, value) ob_percpu_op_byte(pcp, value, "and")
#define this_cpu_and_2(pcp, value) ob_percpu_op("w", pcp, value, "and")
#define this_cpu_and_4(pcp, value) ob_percpu_op("l", pcp, value, "and")
#define this_cpu_and_8(pcp, value) ob_percpu_op("q", pcp, value, "and")
#define this_cpu_or_1(pcp, value) ob_percpu_op_byte(pcp, value, "or")
#define this_cpu_or_2(pcp, value) ob_percpu_op("w", pcp, value, "or")
#define this_cpu_or_4(pcp, value) ob_percpu_op("l", pcp, value, "or")
#define this_cpu_or_8(pcp, value) ob_percpu_op("q", pcp, value, "or")

#define ob_percpu_read(pcp) READ_ONCE(*raw_cpu_ptr(&(pcp)))
#define this_cpu_read_1(pcp) ob_percpu_read(pcp)
#define this_cpu_read_2(pcp) ob_percpu_read(pcp)
#define this_cpu_read_4(pcp) ob_percpu_read(pcp)
#define this_cpu_read_8(pcp) ob_percpu_read(pcp)

#define ob_percpu_write(pcp, value) WRITE_ONCE(*raw_cpu_ptr(&(pcp)), (typeof(pcp))(value))
#define this_cpu_write_1(pcp, value) ob_percpu_write(pcp, value)
#define this_cpu_write_2(pcp, value) ob_percpu_write(pcp, value)
#define this_cpu_write_4(pcp, value) ob_percpu_write(pcp, value)
#define this_cpu_write_8(pcp, value) ob_percpu_write(pcp, value)

#define ob_percpu_add_return(suffix, pcp, value)				\
({										\
	typeof(pcp) __delta = (typeof(pcp))(value), __sum = __delta;		\
	asm volatile("xadd" suffix " %0, %1"					\
		     : "+r" (__sum), "+m" (*raw_cpu_ptr(&(pcp))) : : "cc");	\
	(typeof(pcp))(__sum + __delta);						\
})
#define this_cpu_add_return_4(pcp, value) ob_percpu_add_return("l", pcp, value)
#define this_cpu_add_return_8(pcp, value) ob_percpu_add_return("q", pcp, value)

#define ob_percpu_cmpxchg(suffix, pcp, old, new)				\
({										\
	typeof(pcp) __old = (typeof(pcp))(old);					\
	asm volatile("cmpxchg" suffix " %2, %1"					\
		     : "+a" (__old), "+m" (*raw_cpu_ptr(&(pcp)))		\
		     : "r" ((typeof(pcp))(new)) : "cc", "memory");		\
	__old;									\
})
#define this_cpu_cmpxchg_4(pcp, old, new) ob_percpu_cmpxchg("l", pcp, old, new)
#define this_cpu_cmpxchg_8(pcp, old, new) ob_percpu_cmpxchg("q", pcp, old, new)

#include <asm-generic/percpu.h>
#endif
