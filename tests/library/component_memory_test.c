// SPDX-License-Identifier: GPL-2.0-only
/*
 * A file system that does not fit into the kernel's memory is not an unknown one. Nor is an unknown
 * one too large, because another thread asks for one that is.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "client.h"

#define LOADS 5

static bool has_ended;		/* atomic */

static void *ask_for_large(void *type)
{
	for (int i = 0; i < LOADS; i++)
		ob_sys_mount("none", "/mnt", type, 0, NULL);
	__atomic_store_n(&has_ended, true, __ATOMIC_SEQ_CST);
	return NULL;
}

static void check_beside(const char *large)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, ask_for_large, (void *)large));
	while (!__atomic_load_n(&has_ended, __ATOMIC_SEQ_CST)) {
		CHECK_EQUAL(ob_sys_mount("none", "/mnt", "nonsense", 0, NULL), -1);
		CHECK_EQUAL(errno, ENODEV);
		CHECK_EQUAL(ob_sys_fsopen("nonsense", 0), -1);
		CHECK_EQUAL(errno, ENODEV);
	}
	CHECK(!pthread_join(thread, NULL));
}

int main(void)
{
	static const char *const types[] = {
		"btrfs", "xfs", "f2fs", "cifs", "ntfs3", "ext4", "ocfs2", "gfs2", "nfs", "jfs",
	};
	struct ob_config config = { .size = sizeof(config), .vcpus = 2, .memory = 16 << 20 };
	const char *large = NULL;

	CHECK_EQUAL(ob_boot(&config), 0);
	for (unsigned int i = 0; i < sizeof(types) / sizeof(types[0]) && !large; i++)
		if (ob_component_load(types[i], NULL) == -ENOMEM)
			large = types[i];
	CHECK(large);
	/* Linux may free memory meanwhile: then the type is known, and its source is wrong. */
	CHECK_EQUAL(ob_sys_mount("none", "/mnt", large, 0, NULL), -1);
	CHECK(errno != ENODEV);
	CHECK(ob_sys_fsopen(large, 0) >= 0 || errno == ENOMEM);
	CHECK_EQUAL(ob_sys_mount("none", "/mnt", "nonsense", 0, NULL), -1);
	CHECK_EQUAL(errno, ENODEV);
	check_beside(large);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
