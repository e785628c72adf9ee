/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What Linux's vector code for x86 asks of its architecture: lib/raid6, and arch/x86's asm/xor.h.
 *
 * This code keeps values in vector registers from one asm statement to the next, and does not tell
 * the compiler. kernel/arch/Makefile compiles it so that the compiler uses no vector register.
 */
#ifndef _ASM_OUTBOARD_FPU_API_H
#define _ASM_OUTBOARD_FPU_API_H

#include <linux/bits.h>
#include <linux/preempt.h>
#include <linux/types.h>

/* Features that kernel code can use: the processor has them, and the host saves their registers. */
enum {
	X86_FEATURE_MMX,
	X86_FEATURE_FXSR,
	X86_FEATURE_XMM,
	X86_FEATURE_XMM2,
	X86_FEATURE_SSSE3,
	X86_FEATURE_OSXSAVE,
	X86_FEATURE_AVX,
	X86_FEATURE_AVX2,
	X86_FEATURE_AVX512F,
	X86_FEATURE_AVX512DQ,
	X86_FEATURE_AVX512BW,
	X86_FEATURE_AVX512VL,
};

/* core/vector.c. A snapshot is for one kind of processor, so what was found at boot holds. */
extern u32 ob_vector_features;

static __always_inline bool boot_cpu_has(unsigned int feature)
{
	return ob_vector_features & BIT(feature);
}

/*
 * No register is saved. An upcall is a function call, and no caller expects a vector register to
 * survive a call. A signal handler or trap that interrupts the kernel keeps all of them
 * (hypercall.h). Only a switch to another task would lose them: preemption is off.
 */
static __always_inline void kernel_fpu_begin(void)
{
	preempt_disable();
}

/*
 * Linux's x86 code does not clear the upper halves of the registers. Code with SSE instructions is
 * slow on many processors while these hold anything.
 */
static __always_inline void kernel_fpu_end(void)
{
	if (boot_cpu_has(X86_FEATURE_AVX))
		asm volatile("vzeroupper" : : : "memory");
	preempt_enable();
}

#endif
