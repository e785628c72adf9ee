// SPDX-License-Identifier: GPL-2.0-only
/*
 * Settings of Linux that need other values here from the start. Their variables are static. But
 * Linux passes the tables of its settings to a function that registers them, and the link wraps
 * that.
 *
 * Dodge __register_sysctl_init: some settings have to be others here from the start.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/sysctl.h>

static const struct ob_setting {
	const char *table, *name;
	int value;
} ob_settings[] __initconst = {
	/*
	 * Dodge compaction_proactiveness: free pages are gathered to large runs when a caller wants
	 * one. In the background that would wake an idle process twice a second, and touch memory
	 * that the host has taken back.
	 */
	{ "vm_compaction", "compaction_proactiveness", 0 },
	/*
	 * Dodge watermark_boost_factor: nobody who could wake kswapd, which ends a boost, does so
	 * while memory can grow instead.
	 */
	{ "page_alloc_sysctl_table", "watermark_boost_factor", 0 },
};

static void __init ob_setting_apply(const struct ob_setting *setting, struct ctl_table *table,
				    size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (!strcmp(table[i].procname, setting->name))
			*(int *)table[i].data = setting->value;
}

void __real___register_sysctl_init(const char *path, struct ctl_table *table, const char *name,
				   size_t size);
void __wrap___register_sysctl_init(const char *path, struct ctl_table *table, const char *name,
				   size_t size);

void __init __wrap___register_sysctl_init(const char *path, struct ctl_table *table,
					  const char *name, size_t size)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ob_settings); i++)
		if (!strcmp(name, ob_settings[i].table))
			ob_setting_apply(&ob_settings[i], table, size);
	__real___register_sysctl_init(path, table, name, size);
}
