// SPDX-License-Identifier: GPL-2.0-only
/*
 * Init. Linux wants to execute a program as process 1; we have none. A binary
 * format of ours "executes" an empty file /init: the process gets the mm and
 * the files of a program, and goes on as the leader of the clients (thread.c).
 */
#include <linux/binfmts.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/init_syscalls.h>
#include "vcpu.h"

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

/* The root of the clients: an empty tmpfs with the usual kernel file systems. */
static int __init ob_prepare_root(void)
{
	struct file *init;

	register_binfmt(&ob_init_format);
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
