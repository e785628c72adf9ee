// SPDX-License-Identifier: GPL-2.0-only
/*
 * Crashes the kernel some seconds after it was loaded: later than what a mount takes for a crash at
 * its start.
 */
#include <linux/module.h>
#include <linux/workqueue.h>

enum { SECONDS = 12 };

static void doom(struct work_struct *work)
{
	panic("doom: asked for by a test");
}

static DECLARE_DELAYED_WORK(later, doom);

static int __init doom_init(void)
{
	schedule_delayed_work(&later, SECONDS * HZ);
	return 0;
}

module_init(doom_init);
MODULE_DESCRIPTION("Test: crashes the kernel later");
MODULE_LICENSE("GPL");
