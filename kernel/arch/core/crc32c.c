// SPDX-License-Identifier: GPL-2.0-only
/*
 * CRC32C by the processor's instruction, in the place of Linux's tables. ext4, xfs, btrfs and
 * others have such checksums in their metadata. A snapshot is for one kind of processor, so the
 * choice that was made at boot holds.
 */
#include <linux/cache.h>
#include <linux/crc32.h>
#include <linux/init.h>
#include <linux/types.h>
#include <linux/unaligned.h>
#include <asm/cpuid.h>

static bool ob_has_crc32c __ro_after_init;

u32 __pure __crc32c_le(u32 crc, unsigned char const *bytes, size_t length)
{
	u64 sum = crc;

	if (!ob_has_crc32c)
		return __crc32c_le_base(crc, bytes, length);
	for (; length >= 8; length -= 8, bytes += 8)
		asm("crc32q %1, %0" : "+r" (sum) : "r" (get_unaligned((const u64 *)bytes)));
	crc = sum;
	for (; length; length--, bytes++)
		asm("crc32b %1, %0" : "+r" (crc) : "r" (*bytes));
	return crc;
}

static int __init ob_crc32c_setup(void)
{
	ob_has_crc32c = ob_cpuid_has(OB_CPUID_SSE42);
	return 0;
}
core_initcall(ob_crc32c_setup);
