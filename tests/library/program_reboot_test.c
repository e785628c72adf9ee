// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program restarts the machine, or powers it off, while others write to a disk: all programs end,
 * the kernel goes on, and a halt leaves the disk clean.
 * program_reboot_test IMAGE PROGRAM CALLS: an image with ext4, program_inside.c and
 * program_calls_inside.c.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>

#include "programs.h"

#define DISK "/disk"
#define CALLS "/bin/calls"
#define WRITERS 4

static void check_end(int pid, int signal)
{
	int status = -1;

	CHECK_EQUAL(OK(ob_sys_wait4(pid, &status, 0, NULL)), pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQUAL(WTERMSIG(status), signal);
}

static void check_reboot(const char *way, int signal)
{
	const char *const arguments[] = { CALLS, way, NULL }, *const environment[] = { NULL };
	int writers[WRITERS], pid;

	ob_sys_unlink("written");
	for (int i = 0; i < WRITERS; i++)
		writers[i] = start("write");
	while (ob_sys_access("written", F_OK))
		ob_sys_sched_yield();
	pid = ob_spawn(CALLS, arguments, environment);
	CHECK(pid > 0);
	check_end(pid, signal);
	for (int i = 0; i < WRITERS; i++)
		check_end(writers[i], signal);
}

int main(int argc, char **argv)
{
	CHECK(argc == 4);
	client_boot(2);
	copy_in(argv[2], INSIDE);
	copy_in(argv[3], CALLS);
	client_mount(argv[1], "ext4", DISK);
	OK(ob_sys_chdir(DISK));
	check_reboot("restart", SIGHUP);
	check_reboot("power_off", SIGINT);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
