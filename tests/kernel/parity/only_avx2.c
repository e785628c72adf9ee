// SPDX-License-Identifier: GPL-2.0-only
/* Loaded before raid6_pq and xor: they find a processor without AVX-512. */
#include <linux/module.h>
#include <asm/fpu/api.h>

static int __init only_avx2_init(void)
{
	ob_vector_features &= ~(BIT(X86_FEATURE_AVX512F) | BIT(X86_FEATURE_AVX512DQ) |
				BIT(X86_FEATURE_AVX512BW) | BIT(X86_FEATURE_AVX512VL));
	return 0;
}
module_init(only_avx2_init);

MODULE_DESCRIPTION("A processor without AVX-512");
MODULE_LICENSE("GPL");
