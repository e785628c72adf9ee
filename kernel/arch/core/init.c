// SPDX-License-Identifier: GPL-2.0-only
/*
 * Init. Linux wants to execute a program as process 1, and there is none. A binary format of ours
 * "executes" an empty file /init: so the process gets the mm and the files of a program. It makes
 * the process of the clients (leader.c), and sleeps.
 */
#include <linux/binfmts.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/init_syscalls.h>
#include <linux/kdev_t.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <uapi/linux/mount.h>
#include "init.h"
#include "leader.h"
#include "machine.h"

static int ob_load_init(struct linux_binprm *program)
{
	int error;

	if (strcmp(program->filename, "/init"))
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

	register_binfmt(&ob_init_format);
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

/*
 * Init, as Linux takes it to be in user mode. It ignores SIGCHLD, so its children need no reaping.
 */
void __noreturn ob_init_main(void)
{
	int pid;

	kernel_sigaction(SIGCHLD, SIG_IGN);
	pid = user_mode_thread(ob_leader_main, NULL, SIGCHLD);
	if (pid < 0)
		panic("no process for the clients: error %d", pid);
	for (;;) {
		set_current_state(TASK_IDLE);
		schedule();
	}
}
