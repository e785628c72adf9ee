// SPDX-License-Identifier: GPL-2.0-only
/* Whether this process is a copy of the one that has the kernels. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include "internal.h"

/*
 * In a page that the host empties in each child of a fork: 0 in a child that has run no hook, as
 * one of _Fork() or clone(2). NULL: the host has no such pages.
 */
static uint32_t *origin;

void ob_posix_origin_make(void)
{
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);

	if (page == MAP_FAILED)
		return;
	if (madvise(page, PAGE_BYTES, MADV_WIPEONFORK)) {
		munmap(page, PAGE_BYTES);
		return;
	}
	origin = page;
	*origin = 1;
}

bool ob_platform_is_copy(void)
{
	return origin && !*origin;
}

void ob_posix_origin_renew(void)
{
	if (origin)
		*origin = 1;
}
