// SPDX-License-Identifier: GPL-2.0-only
/* A component of one's own: says hello when it is loaded and when it goes. */
#include <linux/module.h>

static char *whom = "world";
module_param(whom, charp, 0444);

static int __init hello_init(void)
{
	pr_info("hello: hello, %s\n", whom);
	return 0;
}
module_init(hello_init);

static void __exit hello_exit(void)
{
	pr_info("hello: goodbye, %s\n", whom);
}
module_exit(hello_exit);

MODULE_DESCRIPTION("Says hello");
MODULE_LICENSE("GPL");
