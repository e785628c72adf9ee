// SPDX-License-Identifier: GPL-2.0-only
/* A component that never comes to the end of its start. */
#include <linux/delay.h>
#include <linux/module.h>

static int __init endless_init(void)
{
	for (;;)
		msleep(1000);
	return 0;
}
module_init(endless_init);

MODULE_DESCRIPTION("A component that never comes to the end of its start");
MODULE_LICENSE("GPL");
