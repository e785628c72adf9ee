// SPDX-License-Identifier: GPL-2.0-only
/*
 * A host that cannot run programs, or has no room for one: an error of the call, or the end of that
 * program, and the kernel goes on. program_refused_test PROGRAM: program_inside.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "programs.h"

/* FSGSBASE */
#define HAS_BASES 2ul

static unsigned long missing;

/* In the place of the C library's: the processor, as the host describes it, lacks a feature. */
unsigned long getauxval(unsigned long type)
{
	unsigned long value = 0;
	FILE *file = fopen("/proc/self/auxv", "r");
	unsigned long entry[2];

	if (!file)
		return 0;
	while (fread(entry, sizeof(entry), 1, file) == 1)
		if (entry[0] == type)
			value = entry[1];
	fclose(file);
	return type == AT_HWCAP2 ? value & ~missing : value;
}

static void boot(const char *program)
{
	client_boot(1);
	copy_in(program, INSIDE);
	make_descriptors();
}

static void check_processor(const char *program)
{
	const char *const none[] = { NULL };

	missing = HAS_BASES;
	boot(program);
	CHECK_EQUAL(ob_spawn(INSIDE, none, none), -ENOSYS);
	CHECK(ob_sys_wait4(-1, NULL, 0, NULL) == -1 && errno == ECHILD);
	CHECK_EQUAL(ob_halt(), 0);
	missing = 0;
}

/* The host's limit is reached when the first program begins, and is gone when the next one does. */
static void check_limit(const char *program, int resource, rlim_t limit)
{
	struct rlimit before, low;
	int status;

	boot(program);
	CHECK(!getrlimit(resource, &before));
	low = (struct rlimit){ limit, before.rlim_max };
	CHECK(!setrlimit(resource, &low));
	status = wait_for(start("nothing"));
	CHECK(!setrlimit(resource, &before));
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	CHECK_EQUAL(wait_for(start("nothing")), 0);
	CHECK_EQUAL(ob_halt(), 0);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	check_processor(argv[1]);
	check_limit(argv[1], RLIMIT_NOFILE, 4);
	check_limit(argv[1], RLIMIT_AS, 1 << 20);
	return 0;
}
