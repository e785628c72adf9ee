// SPDX-License-Identifier: GPL-2.0-only
/*
 * Components that were loaded at boot, or are in a snapshot, are unloaded and loaded again while
 * others stay; all of them work.
 */
#include <string.h>

#include "client.h"

static int is_loaded;

static int look(void *name, const struct ob_component_info *info)
{
	if (!strcmp(info->name, name))
		is_loaded = (int)info->is_loaded;
	return 0;
}

static int loaded(char *name)
{
	is_loaded = 0;
	CHECK_EQUAL(ob_component_list(look, name), 0);
	return is_loaded;
}

static int stop(void *count, const struct ob_component_info *info)
{
	(void)info;
	++*(int *)count;
	return 7;
}

int main(void)
{
	static char *const names[] = { "xfs", "ext4", "btrfs" };

	int count = 0;

	client_boot(2);
	/* The function ends the list. */
	CHECK_EQUAL(ob_component_list(stop, &count), 7);
	CHECK_EQUAL(count, 1);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
			CHECK(loaded(names[i]));
			CHECK_EQUAL(ob_component_unload(names[i]), 0);
			CHECK(!loaded(names[i]));
			/* Takes the room. */
			CHECK_EQUAL(ob_component_load("f2fs", NULL), 0);
			CHECK_EQUAL(ob_component_load(names[i], NULL), 0);
			CHECK_EQUAL(ob_component_unload("f2fs"), 0);
			/* The memory of the others is intact: mount reads it. */
			for (size_t j = 0; j < sizeof(names) / sizeof(*names); j++)
				CHECK(ob_sys_mount("/dev/nothing", "/mnt", names[j], 0, NULL) ==
				      -1);
		}
	}
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
