// SPDX-License-Identifier: GPL-2.0-only
/* The table of hypercalls, and the threads' blocks: what a kernel image gets at its start. */
#include <stdbool.h>
#include <string.h>

#include <outboard/platform.h>

#include "internal.h"

#define THREAD_BLOCK_BYTES 128

/* The C library gives each thread its own, zero-filled; initial-exec: at one distance in all. */
static __thread char thread_block[THREAD_BLOCK_BYTES]
	__attribute__((aligned(64), tls_model("initial-exec")));

#define MEMBER(group, name) .name = ob_host_##name,
#define GROUP(name, members, required, error)				\
	static const struct ob_host_##name host_##name = {		\
		.size = sizeof(host_##name),				\
		members(MEMBER, name)					\
	};
OB_HOST_GROUPS(GROUP)
#undef GROUP

#define GROUP(name, members, required, error) .name = &host_##name,
static const struct ob_hypercalls hypercalls = {
	.size = sizeof(hypercalls),
	.version = OB_INTERFACE_VERSION,
	OB_HOST_GROUPS(GROUP)
};
#undef GROUP

const struct ob_hypercalls *ob_platform_hypercalls(void)
{
	return &hypercalls;
}

uint64_t ob_platform_thread_block(int64_t *distance)
{
	uint64_t thread_pointer;

	__asm__("movq %%fs:0, %0" : "=r"(thread_pointer));
	*distance = (int64_t)((uint64_t)thread_block - thread_pointer);
	return sizeof(thread_block);
}

void ob_platform_thread_clear(void)
{
	memset(thread_block, 0, sizeof(thread_block));
}
