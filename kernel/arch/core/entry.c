// SPDX-License-Identifier: GPL-2.0-only
/* The kernel image's entry point, its notes, and its table of upcalls (outboard/tables.h). */
#include <linux/build_bug.h>
#include <linux/elfnote.h>
#include <linux/init.h>
#include <linux/types.h>
#include <asm/vcpu.h>
#include <outboard/tables.h>
#include "host.h"

ELFNOTE32("Outboard", OB_NOTE_INTERFACE, OB_INTERFACE_VERSION);
ELFNOTE32("Outboard", OB_NOTE_THREAD_BLOCK, (u32)sizeof(struct ob_thread));
static_assert(sizeof(struct ob_thread) <= OB_THREAD_BLOCK_BYTES);

extern const char ob_kept[], ob_kept_end[];

/* A kernel without a driver has NULL in its table. */
#ifndef CONFIG_BLOCK
#define ob_kernel_disk_add NULL
#define ob_kernel_disk_remove NULL
#endif
#ifndef CONFIG_INET
#define ob_kernel_sockets NULL
#endif

#define OB_UPCALL(name) .name = ob_kernel_##name,
static const struct ob_upcalls ob_upcalls = {
	.size = sizeof(ob_upcalls),
	.version = OB_INTERFACE_VERSION,
	.version_magic = ob_kernel_version_magic,
	.kept = ob_kept,
	.kept_end = ob_kept_end,
	OB_UPCALLS(OB_UPCALL)
};

/* The linker names this function as the image's entry point. */
extern ob_image_entry ob_image_start;

__visible __attribute__((visibility("hidden")))
const struct ob_upcalls *ob_image_start(const struct ob_hypercalls *table, struct ob_host *host,
					int64_t thread_block, const char **reason)
{
	*reason = ob_host_connect(table, host);
	if (*reason)
		return NULL;
	ob_thread_block_offset = thread_block;
	return &ob_upcalls;
}
