// SPDX-License-Identifier: GPL-2.0-only
/* Loaded before raid6_pq and xor: they find a processor of the least kind. */
#include <linux/module.h>
#include <asm/fpu/api.h>

static int __init only_sse2_init(void)
{
	ob_vector_features &= BIT(X86_FEATURE_MMX) | BIT(X86_FEATURE_FXSR) | BIT(X86_FEATURE_XMM) |
			      BIT(X86_FEATURE_XMM2);
	return 0;
}
module_init(only_sse2_init);

MODULE_DESCRIPTION("A processor without SSSE3 and AVX");
MODULE_LICENSE("GPL");
