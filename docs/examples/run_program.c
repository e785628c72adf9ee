// SPDX-License-Identifier: GPL-2.0-only
/* Runs a program of an ext4 image, and prints what it writes: run_program IMAGE /PROGRAM ARGS... */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include <outboard/outboard.h>
#include <outboard/syscalls.h>

/* Makes the image's tree the root, of the caller and of its programs. */
static int enter(const char *image)
{
	struct ob_disk_config disk = {
		.size = sizeof(disk), .path = image, .flags = OB_DISK_READ_ONLY,
	};
	char name[32], device[48];
	int error = ob_disk_add(&disk, name);

	if (error < 0)
		return fprintf(stderr, "%s: %s\n", image, strerror(-error)), error;
	snprintf(device, sizeof(device), "/dev/%s", name);
	/* Descriptors 0 to 2: the image may have no /dev/null. */
	for (int i = 0; i < 3; i++)
		ob_sys_open("/dev/null", O_RDWR, 0);
	ob_sys_mkdir("/root", 0755);
	if (ob_sys_mount(device, "/root", "ext4", MS_RDONLY, NULL) < 0 ||
	    ob_sys_chroot("/root") < 0)
		return perror("mount"), -1;
	/* Programs expect these. An image without the directories does without. */
	ob_sys_mount("proc", "/proc", "proc", 0, NULL);
	ob_sys_mount("dev", "/dev", "devtmpfs", 0, NULL);
	return ob_sys_chdir("/");
}

/* The program's descriptor 1 is a pipe; it shares 0 and 2, which are /dev/null. */
static int run(char **arguments)
{
	char buffer[4096];
	int ends[2], status = 0, pid;
	long length;

	if (ob_sys_pipe2(ends, 0) < 0 || ob_sys_dup3(ends[1], 1, 0) < 0)
		return perror("pipe"), 1;
	ob_sys_close(ends[1]);
	pid = ob_spawn(arguments[0], (const char *const *)arguments, NULL);
	if (pid < 0)
		return fprintf(stderr, "%s: %s\n", arguments[0], strerror(-pid)), 1;
	/* Then the program has the only writing end. */
	ob_sys_close(1);
	while ((length = ob_sys_read(ends[0], buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, length, stdout);
	ob_sys_wait4(pid, &status, 0, NULL);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int count, char **arguments)
{
	int result;

	if (count < 3)
		return 2;
	if (ob_boot(NULL))
		return fprintf(stderr, "boot: %s\n", ob_boot_error()), 1;
	result = enter(arguments[1]) ? 1 : run(arguments + 2);
	return ob_halt() ? 1 : result;
}
