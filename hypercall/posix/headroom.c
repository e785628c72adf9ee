// SPDX-License-Identifier: GPL-2.0-only
/*
 * Headroom below the host's limit of mappings.
 *
 * The host limits the number of mappings of a process. At the limit it refuses even the call that
 * would remove one. Unmapping must not fail then: a page that the kernel took back would stay
 * visible. So this file keeps some mappings, and gives them up for as long as the host refuses.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <sys/mman.h>

#include "regions.h"

#define HEADROOM_MAPPINGS 32ull

/* Reserves pages whose protection alternates, so that each is a mapping of its own. */
void ob_posix_headroom_keep(struct ob_host *host)
{
	uint64_t size = HEADROOM_MAPPINGS * PAGE_BYTES, none = 0;
	void *start = ob_posix_reservation(0, size, 0);

	if (start == MAP_FAILED)
		return;
	for (uint64_t offset = 0; offset < size; offset += 2 * PAGE_BYTES)
		mprotect((char *)start + offset, PAGE_BYTES, PROT_READ);
	if (!__atomic_compare_exchange_n(&host->headroom.address, &none, (uint64_t)start, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		munmap(start, size);
}

/* At the first mapping of a window: many programs have none. */
void ob_posix_headroom_begin(struct ob_host *host)
{
	if (!__atomic_load_n(&host->headroom.begun, __ATOMIC_RELAXED) &&
	    !__atomic_exchange_n(&host->headroom.begun, true, __ATOMIC_SEQ_CST))
		ob_posix_headroom_keep(host);
}

void ob_posix_headroom_give_up(struct ob_host *host)
{
	uint64_t start = __atomic_exchange_n(&host->headroom.address, 0, __ATOMIC_SEQ_CST);

	if (start)
		munmap((void *)start, HEADROOM_MAPPINGS * PAGE_BYTES);
}
