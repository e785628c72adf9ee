// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes of their own, for host threads that act for somebody else: a server's for its clients.
 * Local clients are threads of one process (leader.c). A process of its own has its own files,
 * root, credentials, signals and children, and ends alone. Linux makes, replaces, kills and reaps
 * it. A task is made here, by init for a new process, or by a thread of the process that is copied;
 * a host thread claims it afterwards (adopt.c).
 */
#include <linux/binfmts.h>
#include <linux/fs_struct.h>
#include <linux/init_task.h>
#include <linux/path.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <outboard/gate.h>
#include "adopt.h"
#include "gate.h"
#include "init.h"
#include "program.h"

static long ob_new_call(void *unused)
{
	return IS_ENABLED(CONFIG_MMU) ? ob_init_clone() : -ENOSYS;
}

int ob_kernel_process_new(void)
{
	return ob_call(ob_new_call, NULL);
}

#define OB_CLONE_NAMESPACES (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | \
			     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define OB_CLONE_FLAGS (CSIGNAL | CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | \
			CLONE_THREAD | CLONE_SYSVSEM | CLONE_PARENT | CLONE_IO | \
			OB_CLONE_NAMESPACES)

struct ob_cloning {
	u64 flags;
	u32 number;			/* of the new task, in the first namespace */
};

static long ob_clone_call(void *argument)
{
	struct ob_cloning *cloning = argument;
	struct task_struct *task;
	int pid;

	if (!ob_is_of_process(current))
		return -EOPNOTSUPP;
	if (cloning->flags & ~(u64)OB_CLONE_FLAGS)
		return -EINVAL;
	pid = ob_client_clone(cloning->flags & ~(u64)CSIGNAL, cloning->flags & CSIGNAL);
	if (pid < 0)
		return pid;
	rcu_read_lock();
	task = find_task_by_vpid(pid);
	/* 0: it was killed and reaped already. */
	cloning->number = task ? task_pid_nr(task) : 0;
	rcu_read_unlock();
	return pid;
}

int ob_kernel_process_clone(uint64_t flags, uint32_t *number)
{
	struct ob_cloning cloning = { .flags = flags };
	int pid = ob_call(ob_clone_call, &cloning);

	*number = cloning.number;
	return pid;
}

/* The process may have another root, where /init is missing, or a stranger's. */
static int ob_exec_below_first_root(const char *name)
{
	const char *const arguments[] = { name, NULL }, *const environment[] = { NULL };
	struct path root, first;
	int error = unshare_fs_struct();

	if (error)
		return error;
	get_fs_root(current->fs, &root);
	get_fs_root(init_task.fs, &first);
	set_fs_root(current->fs, &first);
	error = kernel_execve("/init", arguments, environment);
	set_fs_root(current->fs, &root);
	path_put(&first);
	path_put(&root);
	return error;
}

static long ob_exec_call(void *argument)
{
	const char *name = argument;
	int error;

	if (!ob_is_of_process(current))
		return -EOPNOTSUPP;
	error = ob_exec_below_first_root(name);
	if (!error)
		set_task_comm(current, name);
	return error;
}

int ob_kernel_process_exec(const char *name)
{
	return ob_call(ob_exec_call, (void *)name);
}

int ob_kernel_program_start(const char *path, const char *const *arguments,
			    const char *const *environment)
{
	struct ob_program_call call = { path, arguments, environment };

	return ob_call(ob_program_start, &call);
}
