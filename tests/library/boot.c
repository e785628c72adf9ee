/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Boots whatever profile it is linked with, makes two system calls, halts. Exit code 0 if all went
 * well.
 */
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include <outboard/outboard.h>

int main(void)
{
	struct ob_config config = { .size = sizeof(config), .vcpus = 2, .log_level = 3 };
	struct utsname name;
	long pid;

	if (ob_boot(&config) != 0) {
		fprintf(stderr, "cannot boot: %s\n", ob_boot_error());
		return 1;
	}
	pid = ob_syscall(SYS_getpid);
	if (ob_syscall(SYS_uname, &name) != 0 || pid <= 0) {
		fprintf(stderr, "a system call failed\n");
		return 1;
	}
	printf("profile %s: %s %s booted, we are process %ld in it\n", ob_profile(), name.sysname,
	       name.release, pid);
	return ob_halt() == 0 ? 0 : 1;
}
