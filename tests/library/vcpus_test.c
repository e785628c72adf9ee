// SPDX-License-Identifier: GPL-2.0-only
/*
 * How many vCPUs a program with one thread finds when it asks at once:
 * vcpus_test VCPUS ONLINE WORDS
 *
 * ONLINE is the expected number, WORDS are the kernel's command line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

static int processors_of_proc(void)
{
	static char text[65536];
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, "/proc/cpuinfo", O_RDONLY, 0)), count = 0;
	long length = 0, bytes;

	while ((bytes = OK(ob_sys_read((unsigned int)fd, text + length,
				       sizeof(text) - 1 - (size_t)length))) > 0)
		length += bytes;
	OK(ob_sys_close((unsigned int)fd));
	for (char *at = text; (at = strstr(at, "processor\t:")); at++)
		count++;
	return count;
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .memory = 256 << 20, .log_level = OB_LOG_DEFAULT,
	};
	cpu_set_t set;
	int online;

	CHECK_EQUAL(count, 4);
	config.vcpus = (unsigned int)atoi(arguments[1]);
	config.command_line = arguments[3];
	online = atoi(arguments[2]);
	CHECK_EQUAL(ob_boot(&config), 0);
	CPU_ZERO(&set);
	OK(ob_sys_sched_getaffinity(0, sizeof(set), (unsigned long *)&set));
	CHECK_EQUAL(CPU_COUNT(&set), online);
	if (ob_sys_mkdir("/proc", 0755))
		CHECK_EQUAL(errno, EEXIST);
	OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	CHECK_EQUAL(processors_of_proc(), online);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
