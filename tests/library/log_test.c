// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's log goes to the callback, by level. Argument: the level. A client writes a line of
 * each level: those that are grave enough come.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define MARK "written by a client"

static unsigned int lines[8];	/* of the kernel itself, by level */
static bool written[8];		/* whether the client's line came */
static bool saw_banner;

static void take_line(void *context, int level, const char *line, size_t length)
{
	CHECK(context == lines);
	CHECK(level >= 0 && level <= 7);
	CHECK(!memchr(line, '\n', length));
	if (memmem(line, length, MARK, strlen(MARK))) {
		CHECK(!written[level]);
		written[level] = true;
		return;
	}
	__atomic_add_fetch(&lines[level], 1, __ATOMIC_SEQ_CST);
	if (memmem(line, length, "Linux version", 13))
		saw_banner = true;
}

static void write_lines(void)
{
	int fd = (int)OK(ob_sys_open("/dev/kmsg", O_WRONLY, 0));

	for (int level = 0; level < 8; level++) {
		char line[64];
		int length = snprintf(line, sizeof(line), "<%d>" MARK "\n", level);

		CHECK_EQUAL(OK(ob_sys_write((unsigned int)fd, line, (size_t)length)), length);
	}
	OK(ob_sys_close((unsigned int)fd));
}

int main(int count, char **arguments)
{
	struct ob_config config = {
		.size = sizeof(config), .vcpus = 1, .log = take_line, .log_context = lines,
	};

	CHECK_EQUAL(count, 2);
	config.log_level = atoi(arguments[1]);
	CHECK_EQUAL(ob_boot(&config), 0);
	write_lines();
	CHECK_EQUAL(ob_halt(), 0);
	for (int level = 0; level < 8; level++) {
		CHECK_EQUAL(written[level], level <= config.log_level);
		/* A boot gives no reason to warn. */
		if (level > config.log_level || level <= 4)
			CHECK_EQUAL(lines[level], 0);
	}
	CHECK_EQUAL(saw_banner, config.log_level >= 5);
	return 0;
}
