// SPDX-License-Identifier: GPL-2.0-only
/*
 * The address space is limited just after the boot, before the other vCPUs come up:
 * few_threads_test KILOBYTES-LEFT
 */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "client.h"

static rlim_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages;

	CHECK(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	return (rlim_t)pages * 4096;
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 8, .memory = 256 << 20, .log_level = 0
	};
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	unsigned long set[16] = { 0 };

	CHECK_EQUAL(count, 2);
	CHECK_EQUAL(ob_boot(&config), 0);
	limit.rlim_cur = address_space() + (rlim_t)atol(arguments[1]) * 1024;
	CHECK_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
	/* Waits until all are up that can be. */
	CHECK(ob_sys_sched_getaffinity(0, sizeof(set), set) > 0);
	limit.rlim_cur = RLIM_INFINITY;
	CHECK_EQUAL(setrlimit(RLIMIT_AS, &limit), 0);
	OK(ob_sys_getppid());
	client_tmpfs("/files");
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
