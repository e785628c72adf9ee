// SPDX-License-Identifier: GPL-2.0-only
/*
 * A halt while 500 processes of programs begin or run: all end, the disk is clean, and the host
 * has nothing left of them. program_crowd_test VCPUS IMAGE PROGRAM MILLISECONDS: an image with
 * ext4, program_inside.c, and the time after which it halts; 0: when all are there.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include "programs.h"
#include "stubs.h"

#define DISK "/disk"
#define CROWD 500

static char *const *arguments;

/* The life of one kernel, with a crowd or without. */
static void live(unsigned int crowd, unsigned int milliseconds)
{
	client_boot((unsigned int)atoi(arguments[1]));
	copy_in(arguments[3], INSIDE);
	client_mount(arguments[2], "ext4", DISK);
	OK(ob_sys_chdir(DISK));
	if (crowd)
		start("crowd");
	else
		CHECK_EQUAL(wait_for(start("nothing")), 0);
	if (milliseconds)
		usleep(milliseconds * 1000);
	else
		while (client_task_count() < crowd)
			usleep(1000);
	CHECK_EQUAL(ob_halt(), 0);
	CHECK_EQUAL(reap_stubs(), 1);
}

int main(int argc, char **argv)
{
	struct client_belongings before;

	CHECK(argc == 5);
	arguments = argv;
	stubs_adopt();
	/* The first one takes what the library keeps. */
	live(0, 0);
	before = client_belongings();
	live(CROWD, (unsigned int)atoi(argv[4]));
	/* The C library keeps stacks of threads that have ended, so mappings are not counted. */
	client_check_files_and_threads(before);
	CHECK(client_belongings().bytes <= before.bytes + (8l << 20));
	return 0;
}
