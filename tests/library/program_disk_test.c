// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs on a disk of ext4, until the power is cut: this process kills itself. Files that a
 * program has synced are on the disk.
 * program_disk_test VCPUS IMAGE PROGRAM CASE...: an image with ext4, and ../program/semantics.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "programs.h"

#define DISK "/disk"

static void run_cases(const char **words, int output)
{
	int status = wait_for(start_words(words));

	if (!status)
		return;
	show(output);
	_Exit(1);
}

int main(int argc, char **argv)
{
	const char *const syncs[] = { INSIDE, "executed", "syncs", "synced", NULL };
	char last[6] = "";
	int output;

	CHECK(argc > 4);
	client_boot((unsigned int)atoi(argv[1]));
	copy_in(argv[3], INSIDE);
	ob_sys_mkdir("/proc", 0755);
	OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	client_mount(argv[2], "ext4", DISK);
	OK(ob_sys_chdir(DISK));
	output = make_descriptors();
	argv[3] = INSIDE;
	run_cases((const char **)argv + 3, output);
	start_words(syncs);
	/* Behind the output of the cases. */
	while (memcmp(last, "synced", 6)) {
		memmove(last, last + 1, 5);
		CHECK_EQUAL(OK(ob_sys_read(output, last + 5, 1)), 1);
	}
	kill(getpid(), SIGKILL);
	return 1;
}
