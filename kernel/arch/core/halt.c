// SPDX-License-Identifier: GPL-2.0-only
/*
 * Halt: nothing that was written is lost, every thread of the kernel ends.
 *
 *  1. No new calls: other threads' calls in progress end as by a fatal signal,
 *     their tasks that are out in host code are put to sleep for good.
 *  2. The clients' mappings and files are closed, also those that single threads have for
 *     themselves (unshare), everything is unmounted.
 *  3. Carriers and service threads leave; the host joins them.
 *
 * A thread that sleeps uninterruptibly and does not come out keeps its stack
 * and the memory; nothing else waits for it longer than OB_HALT_PATIENCE.
 */
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/fs_struct.h>
#include <linux/init_task.h>
#include <linux/mman.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/nsproxy.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/syscalls.h>
#include <linux/task_work.h>
#include <uapi/linux/mount.h>
#include <asm/syscall.h>
#include <outboard/gate.h>
#include "../drivers/block.h"
#include "deferred.h"
#include "vcpu.h"

#define OB_HALT_PATIENCE (5 * HZ)
#define OB_MOUNTS_MAX 512

static long ob_do(long number, long a, long b, long c, long d)
{
	return sys_call_table[number](a, b, c, d, 0, 0);
}

/* A client task that still runs kernel code, or may come back to it. */
static bool ob_is_active(struct task_struct *task)
{
	return task != current && task != ob_machine.leader && !READ_ONCE(task->thread.evicted);
}

/*
 * Kills the client tasks that are active, one by one: a signal to the process
 * would kill the halting thread as well. Returns how many threads are not out yet.
 */
static unsigned int ob_disturb_clients(void)
{
	struct sighand_struct *sighand = ob_machine.leader->sighand;
	unsigned int cpu, active = atomic_read(&ob_machine.transit);
	struct task_struct *task;

	spin_lock_irq(&sighand->siglock);
	for_each_thread(ob_machine.leader, task) {
		if (!ob_is_active(task))
			continue;
		active++;
		sigaddset(&task->pending.signal, SIGKILL);
		signal_wake_up(task, 1);
	}
	spin_unlock_irq(&sighand->siglock);
	for_each_online_cpu(cpu)
		if (cpu != raw_smp_processor_id())
			ob_raise(&ob_vcpus[cpu], OB_PENDING_EVICT);
	return active;
}

static unsigned int ob_quiesce_clients(void)
{
	unsigned long deadline = jiffies + OB_HALT_PATIENCE;
	unsigned int active;

	while ((active = ob_disturb_clients()) && time_before(jiffies, deadline))
		schedule_timeout_uninterruptible(1);
	return active;
}

static void ob_run_exit_work(void)
{
	task_work_run();
	clear_thread_flag(TIF_NOTIFY_RESUME);
}

static void ob_share_fs(struct task_struct *task)
{
	struct fs_struct *fs = ob_machine.leader->fs, *old = task->fs;
	bool last;

	spin_lock(&fs->lock);
	fs->users++;
	spin_unlock(&fs->lock);
	task_lock(task);
	task->fs = fs;
	task_unlock(task);
	spin_lock(&old->lock);
	last = !--old->users;
	spin_unlock(&old->lock);
	if (last)
		free_fs_struct(old);
}

static void ob_share_files(struct task_struct *task)
{
	struct files_struct *files = ob_machine.leader->files, *old = task->files;

	atomic_inc(&files->count);
	task_lock(task);
	task->files = files;
	task_unlock(task);
	put_files_struct(old);
}

/* A thread that has left the others: it has name spaces, a root or files of its own. */
static bool ob_is_apart(struct task_struct *task)
{
	struct task_struct *leader = ob_machine.leader;

	return task->nsproxy && (task->nsproxy != leader->nsproxy || task->fs != leader->fs ||
				 task->files != leader->files);
}

/* One that is out for good or halts. With a reference, or NULL. */
static struct task_struct *ob_find_apart(void)
{
	struct task_struct *task, *found = NULL;

	rcu_read_lock();
	for_each_thread(ob_machine.leader, task)
		if (!found && ob_is_apart(task) && !ob_is_active(task))
			found = get_task_struct(task);
	rcu_read_unlock();
	return found;
}

/* What only such a thread holds is closed and unmounted when it has it no longer. */
static void ob_bring_together(void)
{
	struct nsproxy *namespaces = ob_machine.leader->nsproxy;
	struct task_struct *task;

	while ((task = ob_find_apart())) {
		if (task->files != ob_machine.leader->files)
			ob_share_files(task);
		if (task->fs != ob_machine.leader->fs)
			ob_share_fs(task);
		if (task->nsproxy != namespaces) {
			get_nsproxy(namespaces);
			switch_task_namespaces(task, namespaces);
		}
		put_task_struct(task);
	}
}

/* The clients may have made an image their root, from which the other mounts are not seen. */
static void ob_return_to_root(void)
{
	struct path root;

	get_fs_root(init_task.fs, &root);
	set_fs_root(current->fs, &root);
	set_fs_pwd(current->fs, &root);
	path_put(&root);
}

static void ob_close_files(void)
{
#ifdef CONFIG_MMU
	vm_munmap(ob_layout.client, ob_layout.client_end - ob_layout.client);
#endif
	ob_bring_together();
	ob_do(__NR_close_range, 0, ~0U, 0, 0);
	ob_return_to_root();
	ob_run_exit_work();
}

/* What is mounted over the root is found from there as the root's parent; the root itself is not. */
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

/* Unmounts one mount by its number, unless it is the root. */
static int ob_unmount(u64 mount, struct statmount *buffer, size_t size)
{
	struct mnt_id_req request = {
		.size = sizeof(request),
		.mnt_id = mount,
		.param = STATMOUNT_MNT_POINT,
	};
	const char *point;
	long error;

	error = ob_do(__NR_statmount, (long)&request, (long)buffer, size, 0);
	if (error)
		return error;
	point = ob_unmount_path(buffer->str + buffer->mnt_point);
	if (!point)
		return 0;
	error = ob_do(__NR_umount2, (long)point, 0, 0, 0);
	if (error)
		pr_err("%s: cannot unmount: error %ld\n", point, error);
	/* The file system goes now: a loop device below it is free then. */
	ob_run_exit_work();
	return error;
}

/*
 * One pass over the first OB_MOUNTS_MAX mounts, the newest of them first: it may
 * be on top of an older one. Returns how many are gone, `failed` how many are not.
 */
static long ob_unmount_pass(u64 *mounts, struct statmount *buffer, int *failed)
{
	struct mnt_id_req request = { .size = sizeof(request), .mnt_id = LSMT_ROOT };
	long count = ob_do(__NR_listmount, (long)&request, (long)mounts, OB_MOUNTS_MAX, 0);
	long i, before = count;

	*failed = 0;
	for (i = count - 1; i >= 0; i--)
		if (ob_unmount(mounts[i], buffer, 2 * PATH_MAX))
			++*failed;
	if (before < 0)
		return before;
	count = ob_do(__NR_listmount, (long)&request, (long)mounts, OB_MOUNTS_MAX, 0);
	/* A full list may hide more: then whatever was unmounted is progress. */
	if (before == OB_MOUNTS_MAX)
		return before - *failed - 1;
	return before - count;
}

/* Until a pass changes nothing. */
static int ob_unmount_all(void)
{
	u64 *mounts = kcalloc(OB_MOUNTS_MAX, sizeof(*mounts), GFP_KERNEL);
	struct statmount *buffer = kmalloc(2 * PATH_MAX, GFP_KERNEL);
	long gone = -ENOMEM;
	int failed = 0;

	if (mounts && buffer)
		do
			gone = ob_unmount_pass(mounts, buffer, &failed);
		while (gone > 0);
	kfree(mounts);
	kfree(buffer);
	if (gone < 0)
		return gone;
	return failed ? -EBUSY : 0;
}

struct ob_halt {
	unsigned int stuck;		/* client threads that did not come out */
	int result;
};

/* As a system call of the halting thread, which may have given up its rights. */
static long ob_halt_call(void *argument)
{
	struct ob_halt *halt = argument;
	const struct cred *client = override_creds(&init_cred);

	ob_vcpus_cancel();
	halt->stuck = ob_quiesce_clients();
	ob_close_files();
	ksys_sync();
	halt->result = ob_unmount_all();
	ksys_sync();
	if (ob_block_write_errors() && !halt->result)
		halt->result = -EIO;
	revert_creds(client);
	return 0;
}

static void ob_stop_vcpus(void)
{
	unsigned int cpu;

	WRITE_ONCE(ob_machine.stopping, 1);
	for (cpu = 0; cpu < ob_machine.vcpus; cpu++) {
		struct ob_vcpu *vcpu = &ob_vcpus[cpu];

		ob_raise(vcpu, OB_PENDING_STOP);
		ob_service_notify(vcpu);
		ob_baton_pass(&vcpu->carrier.baton);
	}
}

static void ob_join_threads(void)
{
	unsigned int cpu;

	for (cpu = 0; cpu < ob_machine.vcpus; cpu++) {
		if (ob_vcpus[cpu].carrier.handle)
			ob_host_thread_join(ob_vcpus[cpu].carrier.handle);
		if (ob_vcpus[cpu].service.handle)
			ob_host_thread_join(ob_vcpus[cpu].service.handle);
	}
}

int ob_kernel_halt(void)
{
	struct ob_halt halt = {};
	int error = ob_enter();

	if (error)
		return error;
	if (xchg(&ob_machine.halting, 1)) {
		ob_leave(0);
		return -ENODEV;
	}
	ob_halt_call(&halt);
	/* The calling thread leaves with its vCPU: nobody runs on it again. */
	raw_local_irq_disable();
	WRITE_ONCE(ob_this_vcpu()->state, OB_VCPU_STOPPED);
	ob_machine.ready = 0;
	ob_this_thread->task = NULL;
	ob_this_thread->irqs_off = 0;
	ob_stop_vcpus();
	ob_join_threads();
	ob_block_close_all();
	if (!halt.stuck)
		ob_host_regions_release();
	return halt.result;
}
