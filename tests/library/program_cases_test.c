// SPDX-License-Identifier: GPL-2.0-only
/*
 * Cases of an ordinary program inside of the kernel.
 * program_cases_test VCPUS PROGRAM CASE ...: a program that is linked statically. Clients of the
 * same kernel are neither debugged nor filtered.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "programs.h"

static void check_clients(void)
{
	CHECK(ob_sys_rseq(NULL, 32, 0, 0) == -1 && errno == ENOSYS);
	CHECK(ob_sys_seccomp(SECCOMP_SET_MODE_STRICT, 0, NULL) == -1 && errno == ENOSYS);
	CHECK(ob_sys_prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0) == -1 && errno == EINVAL);
	CHECK_EQUAL(OK(ob_sys_prctl(PR_GET_SECCOMP, 0, 0, 0, 0)), SECCOMP_MODE_DISABLED);
	OK(ob_sys_prctl(PR_SET_NAME, (unsigned long)"client", 0, 0, 0));
}

int main(int argc, char **argv)
{
	int output;

	CHECK(argc > 3);
	client_boot((unsigned int)atoi(argv[1]));
	copy_in(argv[2], INSIDE);
	output = make_descriptors();
	for (int i = 3; i < argc; i++)
		run(argv[i], output);
	check_clients();
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
