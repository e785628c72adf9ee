// SPDX-License-Identifier: GPL-2.0-only
/* Warns when it is loaded, for test_warnings.py. */
#include <linux/bug.h>
#include <linux/module.h>

static int __init warn_init(void)
{
	WARN(1, "asked for by a test");
	return 0;
}

module_init(warn_init);
MODULE_DESCRIPTION("Test: warns");
MODULE_LICENSE("GPL");
