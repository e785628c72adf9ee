// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's calls of the host (outboard/tables.h).
 *
 * The host's groups are copied into one table of the kernel's own. A hypercall is then one indirect
 * jump, and an absent one returns an error. The table belongs to the process: a snapshot does not
 * contain it, and a halt leaves it (vmlinux.lds.S).
 */
#include <linux/errno.h>
#include <linux/export.h>
#include <linux/minmax.h>
#include <linux/stddef.h>
#include <linux/types.h>
#include <asm/host.h>
#include <asm/page.h>
#include <asm/vcpu.h>
#include <outboard/tables.h>
#include "host.h"

#define OB_GROUP(name, members, required, error) struct ob_host_##name name;
struct ob_host_table {
	OB_HOST_GROUPS(OB_GROUP)
};
#undef OB_GROUP

/* Not static, because assembly refers to this table. */
extern struct ob_host_table ob_host_table;
/* Whole pages, which the loader leaves alone. vmlinux.lds.S fills the last page. */
struct ob_host_table ob_host_table __ob_host_data __aligned(PAGE_SIZE) = {};

struct ob_host *ob_host __ob_host_data = NULL;
struct ob_host_groups ob_host_groups __ob_host_data = {};

unsigned long ob_thread_block_offset __ob_host_data = 0;
EXPORT_SYMBOL(ob_thread_block_offset);

/*
 * On a page of its own, which the host empties in each copy of the process. So calls of a child
 * that ran no hook of fork() fail, instead of running without the memory and threads of the kernel.
 */
u32 ob_boot __section("outboard_wiped") = 0;

u32 *ob_kernel_boot_number(void)
{
	return &ob_boot;
}

#define OB_CALL(group, name)						\
	asm volatile(".pushsection .text, \"ax\"\n"			\
		     ".globl ob_host_" #name "\n"			\
		     ".type ob_host_" #name ", @function\n"		\
		     "ob_host_" #name ":\n"				\
		     "jmp *ob_host_table+%c0(%%rip)\n"			\
		     ".size ob_host_" #name ", . - ob_host_" #name "\n"	\
		     ".popsection"					\
		     : : "i" (offsetof(struct ob_host_table, group.name)));
#define OB_GROUP(name, members, required, error) members(OB_CALL, name)

/* Never called: its body defines each ob_host_NAME, which jumps to the host's function. */
static void __used ob_host_calls(void)
{
	OB_HOST_GROUPS(OB_GROUP)
}
#undef OB_GROUP

static long ob_absent_ENOSYS(void)
{
	return -ENOSYS;
}

static long ob_absent_ENODEV(void)
{
	return -ENODEV;
}

static long ob_absent_ENOENT(void)
{
	return -ENOENT;
}

/*
 * A group consists of its size and of pointers to functions. A member that the host lacks gets
 * `absent`.
 */
static void ob_copy_group(u64 *to, u64 size, const u64 *from, long (*absent)(void))
{
	u64 known = from ? min(*from, size) / sizeof(*to) : 0, i;

	for (i = 1; i < size / sizeof(*to); i++)
		to[i] = i < known && from[i] ? from[i] : (unsigned long)absent;
}

/* Does the host have the group, with all members? */
static bool ob_is_whole(const u64 *group, u64 size)
{
	u64 i;

	if (!group || *group < size)
		return false;
	for (i = 1; i < size / sizeof(*group); i++)
		if (!group[i])
			return false;
	return true;
}

/* The host's group. NULL: the host has none, or its table ends before the group. */
#define OB_GROUP_OF(table, name)							\
	((table)->size >= offsetofend(struct ob_hypercalls, name) ?				\
	 (const u64 *)(table)->name : NULL)

#define OB_HAS(table, name)								\
	ob_is_whole(OB_GROUP_OF(table, name), sizeof(struct ob_host_##name))

static bool ob_host_fits(const struct ob_hypercalls *table)
{
	bool fits = table->version == OB_INTERFACE_VERSION;

#define OB_GROUP(name, members, required, error)	\
	fits = fits && (!(required) || OB_HAS(table, name));
	OB_HOST_GROUPS(OB_GROUP)
#undef OB_GROUP
	return fits;
}

bool ob_host_connect(const struct ob_hypercalls *table, struct ob_host *host)
{
	if (!ob_host_fits(table))
		return false;
#define OB_GROUP(name, members, required, error)					\
	ob_copy_group((u64 *)&ob_host_table.name, sizeof(ob_host_table.name),		\
		      OB_GROUP_OF(table, name), ob_absent_##error);
	OB_HOST_GROUPS(OB_GROUP)
#undef OB_GROUP
	ob_host = host;
	ob_host_groups = (struct ob_host_groups) {
		.mapping = OB_HAS(table, mapping),
		.timer = OB_HAS(table, timer),
		.dma = OB_HAS(table, dma),
		.pci = OB_GROUP_OF(table, pci),
		.pci_is_whole = OB_HAS(table, pci) && OB_HAS(table, interrupts) &&
				OB_HAS(table, iomem) && OB_HAS(table, dma),
	};
	return true;
}
