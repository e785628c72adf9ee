// SPDX-License-Identifier: GPL-2.0-only
/*
 * A halt while programs write to a disk: they end, and the disk is clean.
 * program_halt_test VCPUS IMAGE PROGRAM: an image with ext4, and program_inside.c.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "programs.h"

#define DISK "/disk"

int main(int argc, char **argv)
{
	CHECK(argc == 4);
	client_boot((unsigned int)atoi(argv[1]));
	copy_in(argv[3], INSIDE);
	client_mount(argv[2], "ext4", DISK);
	OK(ob_sys_chdir(DISK));
	for (int i = 0; i < 4; i++)
		start("write");
	while (ob_sys_access("written", F_OK))
		ob_sys_sched_yield();
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
