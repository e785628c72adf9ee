// SPDX-License-Identifier: GPL-2.0-only
/*
 * Init. Linux wants to execute a program as process 1, and there is none. A binary format of ours
 * "executes" an empty file /init: so the process gets the mm and the files of a program. It makes
 * the process of the clients (leader.c), and later other processes (process.c), which begin with
 * what init has: no file, the first root, all capabilities.
 */
#include <linux/binfmts.h>
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/init_syscalls.h>
#include <linux/kdev_t.h>
#include <linux/llist.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/wait.h>
#include <uapi/linux/mount.h>
#include "adopt.h"
#include "init.h"
#include "leader.h"
#include "machine.h"

static int ob_load_init(struct linux_binprm *program)
{
	int error;

	/* Not for programs, and not for the kernel's own helpers, which are coroutines, too. */
	if (strcmp(program->filename, "/init") ||
	    (current->thread.stack && !is_global_init(current)))
		return -ENOEXEC;
	error = begin_new_exec(program);
	if (error)
		return error;
	setup_new_exec(program);
	return 0;
}

static struct linux_binfmt ob_init_format = {
	.load_binary = ob_load_init,
};

static void __init ob_mount(const char *type, const char *directory)
{
	init_mkdir(directory, 0755);
	init_mount(type, directory, type, 0, NULL);
}

/* The root is a tmpfs. It chose its size when memory was small: sets half of the ceiling. */
static void __init ob_size_root(void)
{
	char *options = (char *)get_zeroed_page(GFP_KERNEL);	/* mount wants a page */

	snprintf(options, PAGE_SIZE, "size=%lluk", ob_machine.memory >> 11);
	init_mount(NULL, "/", NULL, MS_REMOUNT, options);
	free_page((unsigned long)options);
}

/* The root of the clients: an empty tmpfs with the usual kernel file systems. */
static int __init ob_prepare_root(void)
{
	struct file *init;

	/* First: whatever is in that file. */
	insert_binfmt(&ob_init_format);
	ob_size_root();
	ob_mount("proc", "/proc");
	ob_mount("sysfs", "/sys");
	ob_mount("devtmpfs", "/dev");
	init_mkdir("/mnt", 0755);
	init_mkdir("/tmp", 01777);
	/* Not O_WRONLY: a file that is open for writing cannot be executed. */
	init = filp_open("/init", O_CREAT | O_RDONLY, 0755);
	if (IS_ERR(init))
		return PTR_ERR(init);
	return filp_close(init, NULL);
}
late_initcall(ob_prepare_root);

/* Makes a device node below /dev, and the directories that it is in. */
void __init ob_device_node(const char *name, umode_t type, dev_t device)
{
	char path[64];
	char *slash;

	if (snprintf(path, sizeof(path), "/dev/%s", name) >= sizeof(path))
		return;
	for (slash = strchr(path + 5, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		init_mkdir(path, 0755);
		*slash = '/';
	}
	init_mknod(path, type | 0600, new_encode_dev(device));
}

/* A task waits for init to make a process. */
struct ob_birth {
	struct llist_node node;
	struct completion done;
	int number;			/* of the process; or an error */
};

static LLIST_HEAD(ob_births);
static DECLARE_WAIT_QUEUE_HEAD(ob_births_waiting);

/*
 * Has init make a process of its own for clients (process.c). Returns its number or an error.
 * Blocks for a moment.
 */
int ob_init_clone(void)
{
	struct ob_birth birth;

	init_completion(&birth.done);
	llist_add(&birth.node, &ob_births);
	wake_up(&ob_births_waiting);
	wait_for_completion(&birth.done);
	return birth.number;
}

/* Blocks until there is a birth. */
static void ob_births_serve(void)
{
	struct ob_birth *birth, *next;

	wait_event_idle(ob_births_waiting, !llist_empty(&ob_births));
	llist_for_each_entry_safe(birth, next, llist_del_all(&ob_births), node) {
		birth->number = ob_client_clone(CLONE_CLEAR_SIGHAND, SIGCHLD);
		complete(&birth->done);
	}
}

/* Children need no reaping. Not by SIG_IGN, which a new process would inherit. */
static void ob_leave_children(void)
{
	struct k_sigaction action = {
		.sa = { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT },
	};

	do_sigaction(SIGCHLD, &action, NULL);
}

/* Init, as Linux takes it to be in user mode. */
void __noreturn ob_init_main(void)
{
	int pid;

	ob_leave_children();
	pid = user_mode_thread(ob_leader_main, NULL, SIGCHLD);
	if (pid < 0)
		panic("no process for the clients: error %d", pid);
	for (;;)
		ob_births_serve();
}
