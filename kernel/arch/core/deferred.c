// SPDX-License-Identifier: GPL-2.0-only
/*
 * Start-up work that is put off until a client could see that it is missing.
 *
 * vCPUs other than the first come up later (secondary.c), and a call that asks how many there are
 * waits for them. Some initcalls only fill sysfs: the linker script has put them aside, and they
 * run before the first look-up of a name in sysfs.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/magic.h>
#include <linux/mutex.h>
#include <linux/syscalls.h>
#include "deferred.h"

long ob_sys_sched_getaffinity(pid_t pid, unsigned int size, unsigned long __user *mask)
{
	ob_vcpus_wait();
	return sys_sched_getaffinity(pid, size, mask);
}

long ob_sys_sched_setaffinity(pid_t pid, unsigned int size, unsigned long __user *mask)
{
	ob_vcpus_wait();
	return sys_sched_setaffinity(pid, size, mask);
}

/* From the linker script. */
extern initcall_entry_t ob_deferred_initcalls[], ob_deferred_initcalls_end[];

static DEFINE_MUTEX(ob_deferred_lock);
static bool ob_deferred_done;

static void __ref ob_initcalls_run(void)
{
	initcall_entry_t *entry;

	mutex_lock(&ob_deferred_lock);
	if (!ob_deferred_done)
		for (entry = ob_deferred_initcalls; entry < ob_deferred_initcalls_end; entry++)
			do_one_initcall(initcall_from_entry(entry));
	smp_store_release(&ob_deferred_done, true);
	mutex_unlock(&ob_deferred_lock);
	ob_vcpus_wait();
}

/* Dodge kernfs_dir_iops: the first look-up of a name in sysfs runs the initcalls that fill it. */
extern const struct inode_operations __real_kernfs_dir_iops;
extern struct inode_operations __wrap_kernfs_dir_iops;
struct inode_operations __wrap_kernfs_dir_iops __ro_after_init;

static struct dentry *ob_kernfs_lookup(struct inode *directory, struct dentry *name,
				       unsigned int flags)
{
	if (unlikely(!smp_load_acquire(&ob_deferred_done)) &&
	    directory->i_sb->s_magic == SYSFS_MAGIC)
		ob_initcalls_run();
	return __real_kernfs_dir_iops.lookup(directory, name, flags);
}

/* After the command line is known, before Linux looks at it. */
void __init ob_deferred_setup(void)
{
	__wrap_kernfs_dir_iops = __real_kernfs_dir_iops;
	__wrap_kernfs_dir_iops.lookup = ob_kernfs_lookup;
	ob_vcpus_setup();
}
