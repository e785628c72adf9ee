// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints the default memory of a kernel in bytes, boots one, and prints what the library itself
 * says in the log.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "client.h"

static void print(void *context, int level, const char *line, size_t length)
{
	(void)context;
	(void)level;
	if (memmem(line, length, "outboard:", 9))
		printf("%.*s\n", (int)length, line);
}

int main(void)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 1, .log_level = 6, .log = print,
	};

	printf("%llu\n", (unsigned long long)ob_memory_default());
	CHECK_EQUAL(ob_boot(&config), 0);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
