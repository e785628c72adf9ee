// SPDX-License-Identifier: GPL-2.0-only
/* See platform_bed.h. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform_bed.h"

uint64_t regions[OB_REGIONS];

void start(void)
{
	CHECK_EQUAL(ob_platform_start(mock_host, NULL, NULL), 0);
}

void reserve_all(void)
{
	for (int i = 0; i < OB_REGION_SHADOW; i++) {
		uint64_t size = i == OB_REGION_RAM ? RAM_SIZE : WINDOW_SIZE;

		CHECK_EQUAL(ob_host_region_reserve(mock_host, i, size, &regions[i]), 0);
		CHECK_EQUAL(regions[i] % (16 * MB), 0);
	}
}

void setup(void)
{
	start();
	reserve_all();
}

int status_of_child(void (*fn)(void))
{
	struct rlimit no_core = { 0, 0 };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &no_core);
		fn();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

static uint32_t flag;

void set_flag(uint32_t value)
{
	__atomic_store_n(&flag, value, __ATOMIC_SEQ_CST);
	ob_host_wake(mock_host, &flag, 1);
}

void wait_for_flag(uint32_t value)
{
	uint32_t now;

	while ((now = __atomic_load_n(&flag, __ATOMIC_SEQ_CST)) != value)
		ob_host_wait(mock_host, &flag, now, OB_FOREVER);
}

static bool is_wanted(const char *name, int count, char **names)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(names[i], name))
			return true;
	return !count;
}

int run_platform_tests(const struct platform_test *test, int count, char **names)
{
	int failures = 0;

	for (; test->name; test++) {
		int status;

		if (!is_wanted(test->name, count, names))
			continue;
		status = status_of_child(test->run);
		failures += status != 0;
		printf("%s %s\n", status ? "FAILED" : "ok", test->name);
		fflush(stdout);
	}
	return failures;
}
