// SPDX-License-Identifier: GPL-2.0-only
/* Info: describes this host to the kernel. */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/auxv.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "internal.h"
#include "space/space.h"

/* Address space costs nothing, so these are generous. */
#define VMALLOC_BYTES (32ull << 30)
#define MODULES_BYTES (128ull << 20)
#define CLIENT_BYTES (64ull << 30)
#define STACKS_BYTES (2ull << 30)

uint32_t ob_platform_processors(void)
{
	cpu_set_t set;
	long online;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (uint32_t)CPU_COUNT(&set);
	/* The host has more processors than the set has room for. */
	online = sysconf(_SC_NPROCESSORS_ONLN);
	return online > 0 ? (uint32_t)online : 1;
}

uint64_t ob_platform_memory_host(void)
{
	struct sysinfo info;

	if (sysinfo(&info))
		return 0;
	return (uint64_t)info.totalram * info.mem_unit;
}

/* The host lets programs change the bases of fs and gs themselves (HWCAP2_FSGSBASE). */
#define HAS_BASES 2

uint64_t ob_posix_space_end(void)
{
	return getauxval(AT_HWCAP2) & HAS_BASES ? SPACE_END : 0;
}

void ob_host_info(struct ob_host *host, struct ob_info *info)
{
	*info = (struct ob_info) {
		.features = host->ram.is_shared ? OB_HOST_RAM_IS_PINNED : 0,
		.memory = ob_platform_memory_host(),
		.processors = ob_platform_processors(),
		.windows = {
			[OB_REGION_VMALLOC] = VMALLOC_BYTES,
			[OB_REGION_MODULES] = MODULES_BYTES,
			[OB_REGION_CLIENT] = CLIENT_BYTES,
			[OB_REGION_STACKS] = STACKS_BYTES,
		},
		.space_end = ob_posix_space_end(),
	};
}
