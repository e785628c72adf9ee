// SPDX-License-Identifier: GPL-2.0-only
/*
 * Free pages are gathered to large runs when somebody wants one, and not in the background: that would
 * wake an idle process twice a second, and touch memory that the host has taken back. Linux has a setting for it, in a
 * variable that nobody else sees; but it has to show the table of its settings to register them, and that call is wrapped at the link.
 */
#include <linux/init.h>
#include <linux/string.h>
#include <linux/sysctl.h>

void __real___register_sysctl_init(const char *path, struct ctl_table *table, const char *name, size_t size);
void __wrap___register_sysctl_init(const char *path, struct ctl_table *table, const char *name, size_t size);

void __init __wrap___register_sysctl_init(const char *path, struct ctl_table *table, const char *name, size_t size)
{
	size_t i;

	if (!strcmp(name, "vm_compaction"))
		for (i = 0; i < size; i++)
			if (!strcmp(table[i].procname, "compaction_proactiveness"))
				*(unsigned int *)table[i].data = 0;
	__real___register_sysctl_init(path, table, name, size);
}
