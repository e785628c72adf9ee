// SPDX-License-Identifier: GPL-2.0-only
/*
 * SHADOW: the shadow memory of a kernel with KASAN.
 *
 * It is zeroes at a fixed address and never part of a core. It stays to the end of the process and
 * in fork()ed children, because code that reads it runs there as well.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "regions.h"

/* Small pages: the kernel touches single bytes. */
static int reserve_shadow(uint64_t size, uint64_t address)
{
	if (!ob_posix_reserve_exactly(address, size))
		return -ENOMEM;
	if (mprotect((void *)address, size, PROT_READ | PROT_WRITE)) {
		munmap((void *)address, size);
		return -ENOMEM;
	}
	madvise((void *)address, size, MADV_DONTDUMP);
	madvise((void *)address, size, MADV_NOHUGEPAGE);
	return 0;
}

/*
 * SHADOW belongs to the process: it stays when a kernel halts, and in a fork()ed child. The next
 * kernel gets it at the same address, filled with zeroes. It has one owner at a time.
 */
static struct {
	struct ob_posix_region region;
	struct ob_host *owner;		/* atomic */
} shadow;

int ob_posix_shadow_take(struct ob_host *host, uint64_t size, uint64_t address)
{
	struct ob_host *none = NULL;
	int error = 0;

	if (!__atomic_compare_exchange_n(&shadow.owner, &none, host, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return none == host ? -EEXIST : -EBUSY;
	if (!shadow.region.size) {
		error = reserve_shadow(size, address);
		if (!error)
			shadow.region = (struct ob_posix_region){ address, size };
	} else if (address != shadow.region.address || size != shadow.region.size ||
		   madvise((void *)address, size, MADV_DONTNEED)) {
		error = -ENOMEM;
	}
	if (error)
		__atomic_store_n(&shadow.owner, NULL, __ATOMIC_SEQ_CST);
	return error;
}

void ob_posix_shadow_give_up(struct ob_host *host)
{
	__atomic_compare_exchange_n(&shadow.owner, &host, NULL, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
}
