// SPDX-License-Identifier: GPL-2.0-only
/*
 * The checksum of snapshots: XXH3, with the widest vectors of the processor. A start from a
 * snapshot spends most of its time here.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "internal.h"

uint64_t ob_posix_checksum(const void *bytes, uint64_t size)
{
	if (__builtin_cpu_supports("avx2"))
		return ob_posix_checksum_avx2(bytes, size);
	return XXH3_64bits(bytes, size);
}
