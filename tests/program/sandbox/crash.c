// SPDX-License-Identifier: GPL-2.0-only
/*
 * Crashes the kernel: when its "file system" is mounted.
 */
#include <linux/fs.h>
#include <linux/module.h>

static struct dentry *crash_mount(struct file_system_type *type, int flags, const char *device,
				  void *data)
{
	panic("crash: asked for by a test");
}

static struct file_system_type crash_type = {
	.owner = THIS_MODULE,
	.name = "crash",
	.fs_flags = FS_REQUIRES_DEV,
	.mount = crash_mount,
	.kill_sb = kill_anon_super,
};

static int __init crash_init(void)
{
	return register_filesystem(&crash_type);
}

static void __exit crash_exit(void)
{
	unregister_filesystem(&crash_type);
}

module_init(crash_init);
module_exit(crash_exit);
MODULE_DESCRIPTION("Test: crashes the kernel");
MODULE_LICENSE("GPL");
