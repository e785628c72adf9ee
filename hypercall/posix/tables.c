// SPDX-License-Identifier: GPL-2.0-only
/* The table of hypercalls, and the thread blocks: what a kernel image gets at its start. */
#include <stdbool.h>
#include <string.h>

#include <outboard/platform.h>

#include "internal.h"

/*
 * One block for each host. The C library gives each thread its own blocks, zero-filled;
 * initial-exec puts them at the same distance from each thread pointer. A library that is loaded by
 * dlopen() takes them from the C library's reserve, about 1.6 KB for all such libraries together.
 * Blocks of OB_THREAD_BLOCK_BYTES would be 2 KB: they are smaller, as kernels allow.
 */
#define BLOCK_BYTES 64
static __thread char thread_blocks[OB_HOSTS_MOST][BLOCK_BYTES]
	__attribute__((aligned(BLOCK_BYTES), tls_model("initial-exec")));

/* All groups but the timer: a process has no timer that needs neither a thread nor a signal. */
#define POSIX_GROUPS(group)			\
	group(info, OB_HOST_INFO)		\
	group(memory, OB_HOST_MEMORY)		\
	group(threads, OB_HOST_THREADS)		\
	group(clocks, OB_HOST_CLOCKS)		\
	group(console, OB_HOST_CONSOLE)		\
	group(mapping, OB_HOST_MAPPING)		\
	group(block, OB_HOST_BLOCK)		\
	group(components, OB_HOST_COMPONENTS)	\
	group(snapshot, OB_HOST_SNAPSHOT)	\
	group(virtio, OB_HOST_VIRTIO)		\
	group(sockets, OB_HOST_SOCKETS)		\
	group(spaces, OB_HOST_SPACES)

#define MEMBER(group, name) .name = ob_host_##name,
#define GROUP(name, members)					\
	static const struct ob_host_##name host_##name = {	\
		.size = sizeof(host_##name),			\
		members(MEMBER, name)				\
	};
POSIX_GROUPS(GROUP)
#undef GROUP

#define GROUP(name, members) .name = &host_##name,
static const struct ob_hypercalls hypercalls = {
	.size = sizeof(hypercalls),
	.version = OB_INTERFACE_VERSION,
	POSIX_GROUPS(GROUP)
};
#undef GROUP

const struct ob_hypercalls *ob_platform_hypercalls(void)
{
	return &hypercalls;
}

int64_t ob_platform_thread_block(const struct ob_host *host)
{
	uint64_t thread_pointer;

	__asm__("movq %%fs:0, %0" : "=r"(thread_pointer));
	return (int64_t)((uint64_t)thread_blocks[host - ob_host_first()] - thread_pointer);
}

uint32_t ob_platform_thread_block_bytes(void)
{
	return BLOCK_BYTES;
}

/* The only thread of a fork()ed child has blocks of its parent's kernels. */
void ob_posix_thread_blocks_forked(void)
{
	memset(thread_blocks, 0, sizeof(thread_blocks));
}
