// SPDX-License-Identifier: GPL-2.0-only
/*
 * The lock checker of a kernel that checks itself works, and has not given up: without it, tests on
 * that kernel say nothing.
 */
#include <fcntl.h>
#include <string.h>

#include "client.h"

/* The number that the file has after the name; -1: it has none. */
static long number_after(const char *text, const char *name)
{
	const char *place = strstr(text, name);
	long number = -1;

	if (place)
		sscanf(place + strlen(name), "%ld", &number);
	return number;
}

int main(void)
{
	static char text[16384];
	int file;

	client_boot(4);
	file = (int)OK(ob_sys_openat(AT_FDCWD, "/proc/lockdep_stats", O_RDONLY, 0));
	OK(ob_sys_read(file, text, sizeof(text) - 1));
	CHECK_EQUAL(number_after(text, "debug_locks:"), 1);
	CHECK(number_after(text, "lock-classes:") > 100);
	CHECK(number_after(text, "direct dependencies:") > 100);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
