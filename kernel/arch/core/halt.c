// SPDX-License-Identifier: GPL-2.0-only
/*
 * Halt: nothing that was written is lost, and every thread of the kernel ends.
 *
 *  1. The kernel takes no new calls. Calls in progress end as by a fatal signal. Tasks whose
 *     threads are out in host code end as coroutines, with their files, namespaces and io_urings.
 *  2. The clients' mappings and files are closed, and everything is unmounted.
 *  3. Reboot notifiers run, unless a thread is stuck (see below): md marks its arrays clean.
 *     Drivers of PCI devices shut them down. Then no device may access RAM, and the interrupts of
 *     devices are masked.
 *  4. Carriers and service threads leave, and the host joins them.
 *
 * A thread that sleeps uninterruptibly keeps its stack and the memory. So does a kernel thread that
 * loops with interrupts off, and the vCPU's thread that runs it. Halt waits for neither longer than
 * OB_PATIENCE. It waits for disks as long as they take: what was written is not lost.
 */
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/fs_struct.h>
#include <linux/init_task.h>
#include <linux/magic.h>
#include <linux/mman.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/nsproxy.h>
#include <linux/reboot.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/syscalls.h>
#include <linux/task_work.h>
#include <uapi/linux/mount.h>
#include <asm/syscall.h>
#include <outboard/gate.h>
#include "deferred.h"
#include "driver.h"
#include "host.h"
#include "patience.h"
#include "vcpu.h"

/* How long a mount may still be in use by something that is about to end. In nanoseconds. */
#define OB_UNMOUNT_PATIENCE (2ULL * NSEC_PER_SEC)
#define OB_MOUNTS_MAX 512

static long ob_do(long number, long a, long b, long c, long d)
{
	return sys_call_table[number](a, b, c, d, 0, 0);
}

/* A client task that still runs kernel code, or may come back to it. */
static bool ob_is_active(struct task_struct *task)
{
	return task != current && task != ob_machine.leader &&
	       READ_ONCE(task->thread.away) != OB_AWAY_OUT;
}

/* Has the tasks on which other vCPUs are parked evicted. */
static void ob_evict_all(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (cpu != raw_smp_processor_id())
			ob_raise(&ob_vcpus[cpu], OB_PENDING_EVICT);
}

/*
 * Kills the active client tasks, one by one: a signal to the process would kill the halting thread,
 * too. Returns 0 if all threads are out; else a number. Threads in transit are counted before and
 * after the walk: a new one joins the list of tasks before it leaves transit, and one that ends
 * enters transit before it leaves the list.
 */
static unsigned int ob_disturb_clients(void)
{
	struct sighand_struct *sighand = ob_machine.leader->sighand;
	unsigned int active = ob_transit_count();
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
	active += ob_transit_count();
	ob_evict_all();
	return active;
}

static unsigned int ob_quiesce_clients(void)
{
	struct ob_patience patience = ob_patience_begin(OB_PATIENCE);
	unsigned int active;

	while ((active = ob_disturb_clients()) && !ob_patience_is_over(&patience))
		schedule_timeout_uninterruptible(1);
	return active;
}

/* An evicted task that nobody has ended yet, with a reference; or NULL. */
static struct task_struct *ob_find_evicted(void)
{
	struct task_struct *task, *found = NULL;

	rcu_read_lock();
	for_each_thread(ob_machine.leader, task)
		if (!found && READ_ONCE(task->thread.away) == OB_AWAY_OUT &&
		    !task->thread.stack)
			found = get_task_struct(task);
	rcu_read_unlock();
	return found;
}

/* Tasks other than the halting one and the leader. They sleep, do exit work, or have done it. */
static bool ob_clients_remain(void)
{
	struct task_struct *task;
	bool remain = false;

	rcu_read_lock();
	for_each_thread(ob_machine.leader, task)
		remain |= task != current && task != ob_machine.leader;
	rcu_read_unlock();
	return remain;
}

/* Ends the client tasks whose threads are out in host code: all, unless some are stuck. */
static void ob_end_evicted(unsigned int stuck)
{
	struct ob_patience patience = ob_patience_begin(OB_PATIENCE);
	struct task_struct *task;
	bool again;

	do {
		again = false;
		while (!again && (task = ob_find_evicted())) {
			again = !ob_task_end_evicted(task);
			put_task_struct(task);
		}
		if (stuck || !ob_clients_remain())
			return;
		ob_evict_all();
		schedule_timeout_uninterruptible(1);
	} while (!ob_patience_is_over(&patience));
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

static void ob_close_files(void)
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
static void ob_unmount_memory(void)
{
	int failed;

	while (ob_unmount_pass(OB_UNMOUNT_MEMORY, &failed) > 0)
		;
}

/*
 * Until nothing changes for a while: a kernel thread may be about to free a mount that is in use.
 */
static int ob_unmount_all(void)
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

/*
 * As before a reboot. Not with a client thread that stays in the kernel: it may hold a lock of a
 * device or an array, and a driver would wait for that lock for ever.
 *
 * Without hardware there is no device to shut down, and a visit of all devices takes time.
 */
static void ob_prepare_for_end(void)
{
	if (ob_drivers_have_hardware())
		kernel_restart_prepare(NULL);
	else
		blocking_notifier_call_chain(&reboot_notifier_list, SYS_RESTART, NULL);
}

struct ob_halt {
	unsigned int stuck;		/* number of client threads that did not come out */
	int result;
};

/* Runs as a system call of the halting thread, which may have dropped its capabilities. */
static long ob_halt_call(void *argument)
{
	struct ob_halt *halt = argument;
	const struct cred *client = override_creds(&init_cred);
	int error;

	ob_vcpus_cancel();
	halt->stuck = ob_quiesce_clients();
	ob_end_evicted(halt->stuck);
	ob_close_files();
	ob_unmount_memory();
	ksys_sync();
	halt->result = ob_unmount_all();
	ksys_sync();
	if (!halt->stuck)
		ob_prepare_for_end();
	/* After the reboot notifiers, which write, too. */
	error = ob_drivers_stop();
	if (!halt->result)
		halt->result = error;
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
		/* To a host with timers, a notification would start the service of this vCPU. */
		if (vcpu->service.handle)
			ob_service_notify(vcpu);
		ob_baton_pass(&vcpu->carrier.baton);
	}
}

void ob_thread_leaves(u32 *left)
{
	WRITE_ONCE(*left, 1);
	ob_host_wake(ob_host, left, 1);
}

/*
 * Waits until a thread of the vCPU leaves. If the vCPU's holder takes no interrupts, it is
 * interrupted here (V6): the service thread may have left already. False: the thread does not
 * leave.
 */
static bool ob_leaves_in_time(struct ob_vcpu *vcpu, u32 *left)
{
	struct ob_patience patience = ob_patience_begin(OB_PATIENCE);

	for (;;) {
		u64 holder = READ_ONCE(vcpu->bound_thread);

		if (!READ_ONCE(*left))
			ob_host_wait(ob_host, left, 0, NSEC_PER_SEC / HZ);
		if (READ_ONCE(*left))
			return true;
		if (ob_patience_is_over(&patience))
			return false;
		if (holder)
			ob_host_thread_interrupt(ob_host, holder);
	}
}

/* False: some thread does not end. */
static bool ob_join_vcpu(struct ob_vcpu *vcpu)
{
	bool has_thread = vcpu->service.handle && !ob_host_groups.timer;

	/* The service thread may have yet to make the carrier, so it ends first. */
	if (has_thread && !ob_leaves_in_time(vcpu, &vcpu->service.left))
		return false;
	ob_service_end(vcpu);
	if (!vcpu->carrier.handle)
		return true;
	if (!ob_leaves_in_time(vcpu, &vcpu->carrier.left))
		return false;
	ob_host_thread_join(ob_host, vcpu->carrier.handle);
	return true;
}

static bool ob_join_threads(void)
{
	bool all = true;
	unsigned int cpu;

	for (cpu = 0; cpu < ob_machine.vcpus; cpu++)
		all &= ob_join_vcpu(&ob_vcpus[cpu]);
	return all;
}

/* Some calls of clients did not come out, or threads of the kernel did not, so the memory stays. */
static bool ob_memory_is_used;

/* By a boot that waits no longer. What runs goes on for ever, but no call comes in. */
void ob_abandon(void)
{
	WRITE_ONCE(ob_machine.halting, 1);
	ob_memory_is_used = true;
}

int ob_kernel_halt(int *halted)
{
	struct ob_halt halt = {};
	int error = ob_enter();

	*halted = OB_HALTED_NOT;
	if (error)
		return error;
	if (xchg(&ob_machine.halting, 1)) {
		ob_leave(0);
		return -ENODEV;
	}
	ob_halt_call(&halt);
	/* The calling thread leaves with its vCPU: no thread runs on it again. */
	raw_local_irq_disable();
	WRITE_ONCE(ob_this_vcpu()->state, OB_VCPU_STOPPED);
	ob_machine.ready = 0;
	ob_unbind();
	ob_this_thread->irqs_off = 0;
	ob_stop_vcpus();
	ob_memory_is_used = !ob_join_threads() || halt.stuck;
	ob_drivers_close();
	*halted = ob_memory_is_used ? OB_HALTED_IN_USE : OB_HALTED;
	return halt.result;
}

int ob_kernel_free(void)
{
	if (ob_memory_is_used)
		return -EBUSY;
	WRITE_ONCE(ob_machine.gone, 1);
	ob_host_regions_release(ob_host);
	return 0;
}
