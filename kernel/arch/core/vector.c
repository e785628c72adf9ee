// SPDX-License-Identifier: GPL-2.0-only
/*
 * The vector units of the processor, for Linux's x86 code (asm/fpu/api.h).
 *
 * Bits and leaves: Intel's manual, volume 1, chapters 13 (XCR0) and 14 and 15 (detection), and
 * volume 2A, CPUID.
 */
#include <linux/bits.h>
#include <linux/cache.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/types.h>
#include <asm/fpu/api.h>

/* Parts of the processor's state that the host has enabled, and so saves. */
#define OB_XCR0_AVX (BIT(1) | BIT(2))
#define OB_XCR0_AVX512 (OB_XCR0_AVX | BIT(5) | BIT(6) | BIT(7))

struct ob_leaf {
	u32 a, b, c, d;
};

u32 ob_vector_features __ro_after_init;
EXPORT_SYMBOL_GPL(ob_vector_features);

static struct ob_leaf __init ob_cpuid(u32 number)
{
	struct ob_leaf leaf = { .a = number };

	asm volatile("cpuid" : "+a" (leaf.a), "=b" (leaf.b), "+c" (leaf.c), "=d" (leaf.d));
	return leaf;
}

static u32 __init ob_xcr0(void)
{
	u32 low, high;

	asm volatile("xgetbv" : "=a" (low), "=d" (high) : "c" (0));
	return low;
}

static void __init ob_vector_found(u32 leaf, unsigned int bit, unsigned int feature)
{
	if (leaf & BIT(bit))
		ob_vector_features |= BIT(feature);
}

static int __init ob_vector_setup(void)
{
	struct ob_leaf leaf = ob_cpuid(1);
	u32 enabled;

	ob_vector_found(leaf.d, 23, X86_FEATURE_MMX);
	ob_vector_found(leaf.d, 24, X86_FEATURE_FXSR);
	ob_vector_found(leaf.d, 25, X86_FEATURE_XMM);
	ob_vector_found(leaf.d, 26, X86_FEATURE_XMM2);
	ob_vector_found(leaf.c, 9, X86_FEATURE_SSSE3);
	ob_vector_found(leaf.c, 27, X86_FEATURE_OSXSAVE);
	if (!boot_cpu_has(X86_FEATURE_OSXSAVE))
		return 0;
	enabled = ob_xcr0();
	if ((enabled & OB_XCR0_AVX) != OB_XCR0_AVX)
		return 0;
	ob_vector_found(leaf.c, 28, X86_FEATURE_AVX);
	/* Where the leaf is missing, processors of Intel give another one. */
	if (ob_cpuid(0).a < 7)
		return 0;
	leaf = ob_cpuid(7);
	ob_vector_found(leaf.b, 5, X86_FEATURE_AVX2);
	if ((enabled & OB_XCR0_AVX512) != OB_XCR0_AVX512)
		return 0;
	ob_vector_found(leaf.b, 16, X86_FEATURE_AVX512F);
	ob_vector_found(leaf.b, 17, X86_FEATURE_AVX512DQ);
	ob_vector_found(leaf.b, 30, X86_FEATURE_AVX512BW);
	ob_vector_found(leaf.b, 31, X86_FEATURE_AVX512VL);
	return 0;
}
early_initcall(ob_vector_setup);
