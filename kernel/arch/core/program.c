// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs: unmodified binaries as processes of this kernel, each in a space of its own
 * (space_run.c). A client starts one, as a child of the clients' process: so the clients wait for
 * it. Its descendants are programs, too. No other task can execute one.
 *
 *   the child is made by      the calling client's task, whose files, root and credentials it gets
 *   before its program        it leaves the clients' session, and closes all files but 0 to 2.
 *                             A terminal at 0 becomes the one that controls its session
 *   the caller waits          until the program is executed, or that has failed
 *   when the kernel halts     all programs are killed, after the clients
 */
#include <linux/binfmts.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/oom.h>
#include <linux/refcount.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/syscalls.h>
#include <linux/uaccess.h>
#include <asm/host.h>
#include <asm/ioctls.h>
#include "deferred.h"
#include "host.h"
#include "patience.h"
#include "program.h"
#include "space_site.h"
#include "space_task.h"
#include "space_vector.h"
#include "vdso.h"

/* Bytes of all arguments and environment strings of one program. */
#define OB_STRINGS_BYTES (2UL << 20)
/* And their number: each takes a pointer and an allocation. */
#define OB_STRINGS_MOST 65536

/* A new program's path and strings. The caller may be killed before the child has taken them. */
struct ob_start {
	refcount_t users;
	int error;
	char *path;
	const char **arguments, **environment;
};

static void ob_strings_free(const char **strings)
{
	const char **string = strings;

	while (string && *string)
		kfree(*string++);
	kvfree(strings);
}

static void ob_start_put(struct ob_start *start)
{
	if (!refcount_dec_and_test(&start->users))
		return;
	kfree(start->path);
	ob_strings_free(start->arguments);
	ob_strings_free(start->environment);
	kfree(start);
}

/* How many strings a client's list has, or an error. */
static long ob_strings_count(const char __user *const __user *list)
{
	const char __user *string;
	long count = 0;

	for (; count <= OB_STRINGS_MOST; count++) {
		if (get_user(string, list + count))
			return -EFAULT;
		if (!string)
			return count;
	}
	return -E2BIG;
}

/* One string of a client's list. `left`: bytes that all may still have. */
static char *ob_string_copy(const char __user *const __user *from, size_t *left)
{
	const char __user *string;
	char *copy;

	if (get_user(string, from) || !string)
		return ERR_PTR(-EFAULT);
	if (!*left)
		return ERR_PTR(-E2BIG);
	copy = strndup_user(string, min(*left, MAX_ARG_STRLEN));
	if (!IS_ERR(copy))
		*left -= strlen(copy) + 1;
	else if (PTR_ERR(copy) == -EINVAL)
		return ERR_PTR(-E2BIG);
	return copy;
}

/* Copies a client's list of strings. NULL is an empty one. */
static int ob_strings_copy(const char __user *const __user *list, const char ***strings,
			   size_t *left)
{
	long count = list ? ob_strings_count(list) : 0, i;

	if (count < 0)
		return count;
	/* Room for a name, which a program must have. */
	*strings = kvcalloc(count + 2, sizeof(**strings), GFP_KERNEL);
	if (!*strings)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		char *copy = ob_string_copy(list + i, left);

		if (IS_ERR(copy))
			return PTR_ERR(copy);
		(*strings)[i] = copy;
	}
	return 0;
}

/* The first program of a process: not what the clients' process has. */
static void ob_program_prepare(void)
{
	sigset_t none;

	flush_signal_handlers(current, true);
	sigemptyset(&none);
	set_current_blocked(&none);
	current->signal->oom_score_adj = current->signal->oom_score_adj_min = 0;
	ksys_setsid();
	/* ENOTTY: it is another file. */
	sys_ioctl(0, TIOCSCTTY, 0);
	sys_close_range(3, ~0U, 0);
}

/* The child. When it returns, its program begins. */
static int ob_program_main(void *argument)
{
	struct ob_start *start = argument;
	int error;

	ob_program_prepare();
	error = kernel_execve(start->path, start->arguments, start->environment);
	WRITE_ONCE(start->error, error);
	ob_start_put(start);
	if (error)
		do_exit(127 << 8);
	return 0;
}

/*
 * By copy_thread(), for a task that has a stack: the first one of a program, or a copy of a
 * program's, which also gets its entry. Other tasks are left alone.
 */
int ob_program_thread(struct thread_struct *thread, const struct kernel_clone_args *args)
{
	if (!args->fn && !args->idle)
		return ob_program_copy(thread, args);
	if (args->fn != ob_program_main)
		return 0;
	thread->program = true;
	thread->regs.orig_ax = -1;
	return ob_vectors_make(thread);
}

/* A child that ends, and that nobody shall see. Another thread may wait for all children. */
static void ob_failed_child_reap(long pid)
{
	while (kernel_wait4(pid, NULL, 0, NULL) == -ERESTARTSYS && !fatal_signal_pending(current))
		schedule_timeout_uninterruptible(1);
}

static long ob_program_begin(struct ob_start *start)
{
	long pid;

	refcount_inc(&start->users);
	pid = user_mode_thread(ob_program_main, start, CLONE_VFORK | SIGCHLD);
	if (pid < 0) {
		ob_start_put(start);
		return pid;
	}
	if (!READ_ONCE(start->error))
		return pid;
	ob_failed_child_reap(pid);
	return start->error;
}

static int ob_start_fill(struct ob_start *start, const struct ob_program_call *call)
{
	size_t left = OB_STRINGS_BYTES;
	char *path = strndup_user((const char __user *)call->path, PATH_MAX);
	int error;

	if (IS_ERR(path))
		return PTR_ERR(path) == -EINVAL ? -ENAMETOOLONG : PTR_ERR(path);
	start->path = path;
	error = ob_strings_copy((const char __user *const __user *)call->arguments,
				&start->arguments, &left);
	if (!error && !start->arguments[0]) {
		start->arguments[0] = kstrdup(path, GFP_KERNEL);
		error = start->arguments[0] ? 0 : -ENOMEM;
	}
	return error ?: ob_strings_copy((const char __user *const __user *)call->environment,
					&start->environment, &left);
}

/* As a system call of a client. Returns the number of the program's process. */
long ob_program_start(void *call)
{
	struct ob_start *start;
	long result;

	if (!ob_host_groups.spaces || !ob_layout.space_end)
		return -ENOSYS;
	start = kzalloc(sizeof(*start), GFP_KERNEL);
	if (!start)
		return -ENOMEM;
	refcount_set(&start->users, 1);
	ob_vectors_setup();
	ob_vdso_setup();
	ob_sites_setup();
	/* It may use all vCPUs. */
	ob_vcpus_start_now();
	result = ob_start_fill(start, call) ?: ob_program_begin(start);
	ob_start_put(start);
	return result;
}

/* Whether a program has memory. */
bool ob_programs_exist(void)
{
	struct task_struct *process;
	bool exist = false;

	rcu_read_lock();
	for_each_process(process)
		exist |= process->thread.program && READ_ONCE(process->mm);
	rcu_read_unlock();
	return exist;
}

/*
 * Kills all programs. Returns how many of their tasks have not ended. `shown`: the signal that
 * wait(2) reports, as after a reboot in a namespace of processes. None can be waited for meanwhile.
 */
unsigned int ob_programs_kill(int shown)
{
	struct task_struct *process, *task;
	unsigned int remain = 0;

	read_lock(&tasklist_lock);
	for_each_process_thread(process, task) {
		if (!task->thread.program || READ_ONCE(task->exit_state))
			continue;
		remain++;
		send_sig(SIGKILL, task, 1);
		if (READ_ONCE(task->signal->group_exit_code) == SIGKILL)
			WRITE_ONCE(task->signal->group_exit_code, shown);
	}
	read_unlock(&tasklist_lock);
	return remain;
}

/* Ends all programs. Returns 0; else how many of their tasks are stuck. Blocks. */
unsigned int ob_programs_end(void)
{
	struct ob_patience patience = ob_patience_begin(OB_PATIENCE);
	unsigned int remain;

	while ((remain = ob_programs_kill(SIGKILL)) && !ob_patience_is_over(&patience))
		schedule_timeout_uninterruptible(1);
	return remain;
}
