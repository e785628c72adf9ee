// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many null calls between two marks, for a tracer that counts what the host is asked for meanwhile
 * (V4). Argument: the number of calls.
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "../library/client.h"

static void mark(const char *text)
{
	CHECK(write(STDOUT_FILENO, text, strlen(text)) == (ssize_t)strlen(text));
}

int main(int count, char **arguments)
{
	long calls, parent;

	CHECK_EQUAL(count, 2);
	client_boot(1);
	parent = OK(ob_sys_getppid());
	calls = atol(arguments[1]);
	mark("calls begin\n");
	for (long i = 0; i < calls; i++)
		CHECK_EQUAL(ob_sys_getppid(), parent);
	mark("calls end\n");
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
