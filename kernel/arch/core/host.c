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
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/printk.h>
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
static const struct ob_hypercalls *ob_host_given __ob_host_data = NULL;

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
 * A group consists of its size and of pointers to functions. Here are the names, for messages. A
 * group of which the host lacks a member is not used: the kernel relies on all of them.
 */
struct ob_group {
	const char *name;
	const char *const *members;
	u16 count;
	u16 offset;			/* of the pointer to the group in struct ob_hypercalls */
	bool required;
};

#define OB_NAME(group, name) #name,
#define OB_GROUP(name, members, required, error)				\
	static const char *const ob_names_##name[] = { members(OB_NAME, name) };
OB_HOST_GROUPS(OB_GROUP)
#undef OB_GROUP

#define OB_GROUP(name, members, required, error) OB_GROUP_##name,
enum { OB_HOST_GROUPS(OB_GROUP) };
#undef OB_GROUP

#define OB_GROUP(name, members, required, error)			\
	{ #name, ob_names_##name, ARRAY_SIZE(ob_names_##name),		\
	  offsetof(struct ob_hypercalls, name), required },
static const struct ob_group ob_groups[] = { OB_HOST_GROUPS(OB_GROUP) };
#undef OB_GROUP

/* The host's group. NULL: the host has none, or its table ends before the group. */
static const u64 *ob_given(const struct ob_hypercalls *table, const struct ob_group *group)
{
	if (table->size < group->offset + sizeof(u64 *))
		return NULL;
	return *(const u64 *const *)((const char *)table + group->offset);
}

/* Returns the name of the group's first member that the host lacks. NULL: it has all. */
static const char *ob_lacking(const struct ob_hypercalls *table, const struct ob_group *group)
{
	const u64 *given = ob_given(table, group);
	unsigned int i;

	for (i = 0; i < group->count; i++)
		if (!given || *given < (i + 2) * sizeof(*given) || !given[i + 1])
			return group->members[i];
	return NULL;
}

static bool ob_has(const struct ob_hypercalls *table, unsigned int group)
{
	return !ob_lacking(table, &ob_groups[group]);
}

static void ob_copy_group(u64 *to, u64 size, const u64 *from, long (*absent)(void))
{
	u64 i;

	for (i = 1; i < size / sizeof(*to); i++)
		to[i] = from ? from[i] : (unsigned long)absent;
}

/* Returns why the table does not fit. NULL: it does. */
static const char *ob_host_refusal(const struct ob_hypercalls *table)
{
	static char reason[120];
	const struct ob_group *group;

	if (table->version != OB_INTERFACE_VERSION) {
		snprintf(reason, sizeof(reason), "the host's table has version %u, this kernel "
			 "needs %u", table->version, OB_INTERFACE_VERSION);
		return reason;
	}
	for (group = ob_groups; group < ob_groups + ARRAY_SIZE(ob_groups); group++) {
		if (!group->required || !ob_lacking(table, group))
			continue;
		snprintf(reason, sizeof(reason), "the host's table lacks the function %s of the "
			 "required group %s", ob_lacking(table, group), group->name);
		return reason;
	}
	return NULL;
}

const char *ob_host_connect(const struct ob_hypercalls *table, struct ob_host *host)
{
	const char *refusal = ob_host_refusal(table);

	if (refusal)
		return refusal;
#define OB_GROUP(name, members, required, error)					\
	ob_copy_group((u64 *)&ob_host_table.name, sizeof(ob_host_table.name),		\
		      ob_has(table, OB_GROUP_##name) ? (const u64 *)table->name : NULL,	\
		      ob_absent_##error);
	OB_HOST_GROUPS(OB_GROUP)
#undef OB_GROUP
	ob_host = host;
	ob_host_given = table;
	ob_host_groups = (struct ob_host_groups) {
		.mapping = ob_has(table, OB_GROUP_mapping),
		.timer = ob_has(table, OB_GROUP_timer),
		.ports = ob_has(table, OB_GROUP_ports),
		.dma = ob_has(table, OB_GROUP_dma),
		.spaces = ob_has(table, OB_GROUP_spaces),
		.pci = ob_given(table, &ob_groups[OB_GROUP_pci]),
		.pci_is_whole = ob_has(table, OB_GROUP_pci) &&
				ob_has(table, OB_GROUP_interrupts) &&
				ob_has(table, OB_GROUP_iomem) && ob_has(table, OB_GROUP_dma),
	};
	return NULL;
}

/* A host that lacks a group lacks it on purpose; one that has a part of it may not. */
static int __init ob_host_report(void)
{
	const struct ob_group *group;

	for (group = ob_groups; group < ob_groups + ARRAY_SIZE(ob_groups); group++)
		if (ob_given(ob_host_given, group) && ob_lacking(ob_host_given, group))
			pr_warn("the kernel does not use the host's group %s: it lacks the "
				"function %s\n", group->name, ob_lacking(ob_host_given, group));
	return 0;
}
early_initcall(ob_host_report);
