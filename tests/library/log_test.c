// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's log goes to the callback, by level. Argument: the level. Prints how many lines of
 * each level came.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "client.h"

static unsigned int lines[8];
static int saw_banner;

static void take_line(void *context, int level, const char *line, size_t length)
{
	CHECK(context == lines);
	CHECK(level >= 0 && level <= 7);
	CHECK(!memchr(line, '\n', length));
	__atomic_add_fetch(&lines[level], 1, __ATOMIC_SEQ_CST);
	if (length > 13 && memmem(line, length, "Linux version", 13))
		saw_banner = 1;
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 1, .log = take_line, .log_context = lines,
	};

	CHECK_EQUAL(count, 2);
	config.log_level = atoi(arguments[1]);
	CHECK_EQUAL(ob_boot(&config), 0);
	CHECK_EQUAL(ob_halt(), 0);
	for (int level = 0; level < 8; level++) {
		/* A boot gives no reason to warn. */
		if (level > config.log_level || level <= 4)
			CHECK_EQUAL(lines[level], 0);
	}
	if (config.log_level >= 5)
		CHECK(saw_banner);
	return 0;
}
