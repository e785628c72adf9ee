// SPDX-License-Identifier: GPL-2.0-only
/*
 * Halt, step 2 (halt.c): the clients' mappings and files are closed, and everything is unmounted.
 * The halting thread does it, as the only client that is left.
 */
#include <linux/fdtable.h>
#include <linux/fs_struct.h>
#include <linux/init_task.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/nsproxy.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/task_work.h>
#include <uapi/linux/mount.h>
#include <asm/syscall.h>
#include <asm/unistd.h>
#include "machine.h"
#include "patience.h"
#include "unmount.h"

/* How long a mount may still be in use by something that is about to end. In nanoseconds. */
#define OB_UNMOUNT_PATIENCE (2ULL * NSEC_PER_SEC)
#define OB_MOUNTS_MAX 512

static long ob_do(long number, long a, long b, long c, long d)
{
	return sys_call_table[number](a, b, c, d, 0, 0);
}

static void ob_run_exit_work(void)
{
	task_work_run();
	clear_thread_flag(TIF_NOTIFY_RESUME);
}

static void ob_share_fs(void)
{
	struct fs_struct *fs = ob_machine.leader->fs, *old = current->fs;
	bool last;

	spin_lock(&fs->lock);
	fs->users++;
	spin_unlock(&fs->lock);
	task_lock(current);
	current->fs = fs;
	task_unlock(current);
	spin_lock(&old->lock);
	last = !--old->users;
	spin_unlock(&old->lock);
	if (last)
		free_fs_struct(old);
}

static void ob_share_files(void)
{
	struct files_struct *files = ob_machine.leader->files, *old = current->files;

	atomic_inc(&files->count);
	task_lock(current);
	current->files = files;
	task_unlock(current);
	put_files_struct(old);
}

/*
 * The halting thread may have left the others' namespaces, root and files. It gives up its own now.
 */
static void ob_come_together(void)
{
	struct task_struct *leader = ob_machine.leader;

	if (current->files != leader->files)
		ob_share_files();
	if (current->fs != leader->fs)
		ob_share_fs();
	if (current->nsproxy != leader->nsproxy) {
		get_nsproxy(leader->nsproxy);
		switch_task_namespaces(current, leader->nsproxy);
	}
}

/* The clients may have made an image their root, and the other mounts are invisible from there. */
static void ob_return_to_root(void)
{
	struct path root;

	get_fs_root(init_task.fs, &root);
	set_fs_root(current->fs, &root);
	set_fs_pwd(current->fs, &root);
	path_put(&root);
}

/* Closes the clients' mappings and files. Every path begins at the first root afterwards. */
void ob_files_close(void)
{
#ifdef CONFIG_MMU
	if (ob_layout.client_end)
		vm_munmap(ob_layout.client, ob_layout.client_end - ob_layout.client);
#endif
	ob_come_together();
	ob_do(__NR_close_range, 0, ~0U, 0, 0);
	ob_return_to_root();
	ob_run_exit_work();
}

/*
 * A mount over the root is found as the root's parent; the root itself is not found that way.
 */
static const char *ob_unmount_path(const char *point)
{
	struct path above;
	bool covered;

	if (strcmp(point, "/"))
		return point;
	if (kern_path("/..", LOOKUP_DIRECTORY, &above))
		return NULL;
	covered = above.mnt != current->fs->root.mnt;
	path_put(&above);
	return covered ? "/.." : NULL;
}

/* Static: there is one halt, and it must not need memory, which it may have to free. */
static u64 ob_mounts[OB_MOUNTS_MAX];
static union {
	struct statmount mount;
	char bytes[2 * PATH_MAX];
} ob_mount_buffer;

/* File systems that are only in memory go first: others may need that memory to write back. */
enum ob_unmount_kind {
	OB_UNMOUNT_MEMORY,
	OB_UNMOUNT_ALL,
};

static long ob_unmount_by_number(u64 mount, enum ob_unmount_kind kind)
{
	struct statmount *status = &ob_mount_buffer.mount;
	struct mnt_id_req request = {
		.size = sizeof(request),
		.mnt_id = mount,
		.param = STATMOUNT_MNT_POINT | STATMOUNT_SB_BASIC,
	};
	const char *point;
	long error;

	error = ob_do(__NR_statmount, (long)&request, (long)status, sizeof(ob_mount_buffer), 0);
	if (error)
		return error;
	if (kind == OB_UNMOUNT_MEMORY && status->sb_magic != TMPFS_MAGIC)
		return 0;
	point = ob_unmount_path(status->str + status->mnt_point);
	return point ? ob_do(__NR_umount2, (long)point, 0, 0, 0) : 0;
}

/* Unmounts one mount, unless it is the root. May use the reserves of memory. */
static long ob_unmount(u64 mount, enum ob_unmount_kind kind)
{
	unsigned int flags = memalloc_noreclaim_save();
	long error = ob_unmount_by_number(mount, kind);

	memalloc_noreclaim_restore(flags);
	/* The file system ends now, and frees a loop device below it. */
	ob_run_exit_work();
	return error;
}

static long ob_list_mounts(void)
{
	struct mnt_id_req request = { .size = sizeof(request), .mnt_id = LSMT_ROOT };

	return ob_do(__NR_listmount, (long)&request, (long)ob_mounts, OB_MOUNTS_MAX, 0);
}

/*
 * One pass over the first OB_MOUNTS_MAX mounts, the newest first: a newer one may be on top of an
 * older one. Returns how many it unmounted; `failed`: how many it could not.
 */
static long ob_unmount_pass(enum ob_unmount_kind kind, int *failed)
{
	long count = ob_list_mounts(), before = count, i;

	*failed = 0;
	for (i = count - 1; i >= 0; i--)
		if (ob_unmount(ob_mounts[i], kind))
			++*failed;
	if (before < 0)
		return before;
	count = ob_list_mounts();
	/* A full list may hide more mounts: then each one that was unmounted is progress. */
	if (before == OB_MOUNTS_MAX)
		return before - *failed - 1;
	return before - count;
}

/* Unmounts what it can. The rest is tried again with the others. */
void ob_unmount_memory(void)
{
	int failed;

	while (ob_unmount_pass(OB_UNMOUNT_MEMORY, &failed) > 0)
		;
}

/*
 * Until nothing changes for a while: a kernel thread may be about to free a mount that is in use.
 */
int ob_unmount_all(void)
{
	struct ob_patience patience = ob_patience_begin(OB_UNMOUNT_PATIENCE);
	int failed;
	long gone;

	for (;;) {
		gone = ob_unmount_pass(OB_UNMOUNT_ALL, &failed);
		if (gone > 0)
			patience = ob_patience_begin(OB_UNMOUNT_PATIENCE);
		else if (!failed || ob_patience_is_over(&patience))
			break;
		else
			schedule_timeout_uninterruptible(1);
		ob_run_exit_work();
	}
	if (gone < 0)
		return gone;
	if (failed)
		pr_err("%d file systems could not be unmounted\n", failed);
	return failed ? -EBUSY : 0;
}
