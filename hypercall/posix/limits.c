// SPDX-License-Identifier: GPL-2.0-only
/* Limits of the process (setrlimit(2)) that a kernel meets when it boots. */
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>

#include "internal.h"

/* With less than this there is too little private memory for stacks, page tables and the heap. */
#define DATA_PLENTY (1ull << 30)

/* UINT64_MAX: there is no limit. */
static uint64_t limit_of(__rlimit_resource_t resource)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

uint64_t ob_posix_file_most(void)
{
	return limit_of(RLIMIT_FSIZE);
}

uint64_t ob_platform_memory_most(void)
{
	return ob_posix_file_most();
}

bool ob_platform_limits_describe(uint64_t address_space, char *text, size_t size)
{
	uint64_t space = limit_of(RLIMIT_AS), data = limit_of(RLIMIT_DATA);
	size_t used = 0;

	if (space < address_space)
		used = (size_t)snprintf(text, size,
					"address space %llu KB (ulimit -v), and a kernel "
					"needs %llu GB",
					(unsigned long long)space >> 10,
					(unsigned long long)(address_space >> 30) + 1);
	if (data < DATA_PLENTY && used < size)
		used += (size_t)snprintf(text + used, size - used, "%sdata %llu KB (ulimit -d)",
					 used ? ", " : "", (unsigned long long)data >> 10);
	return used != 0;
}
