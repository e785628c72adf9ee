// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of a program. A host goes on sending what a program has written before it ended. This
 * kernel ends with the program, so the end waits until its peers have the data, for some seconds.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include <outboard/syscalls.h>

#include "local.h"

#define SECONDS_MOST 5
#define NANOSECONDS 1000000000ll
#define PAUSE 2000000

/* TCP's states in /proc/net/tcp of a socket that will send nothing new, and that may have data. */
static bool may_have_data(unsigned int state)
{
	return state == 4 /* FIN_WAIT1 */ || state == 9 /* LAST_ACK */ || state == 11 /* CLOSING */;
}

/* A line is "NUMBER: ADDRESS ADDRESS STATE QUEUED:..."; a hexadecimal number each but the first. */
static bool has_data(const char *line)
{
	unsigned int state, queued;

	return sscanf(line, " %*d: %*s %*s %x %x:", &state, &queued) == 2 && queued &&
	       may_have_data(state);
}

/* Whether the table has such a socket. */
static bool search(const char *path)
{
	static char text[1 << 16];
	long fd = ob_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), length;
	bool found = false;

	if (fd < 0)
		return false;
	/* Linux returns whole lines. */
	while (!found && (length = ob_sys_read((int)fd, text, sizeof(text) - 1)) > 0) {
		char *rest = text, *line;

		text[length] = '\0';
		while (!found && (line = strsep(&rest, "\n")))
			found = has_data(line);
	}
	ob_sys_close((unsigned int)fd);
	return found;
}

void ob_local_drain(void)
{
	int64_t end = ob_local_now() + SECONDS_MOST * NANOSECONDS;
	struct timespec pause = { 0, PAUSE };

	ob_local_shut_down_all();
	while ((search("/proc/net/tcp") || search("/proc/net/tcp6")) && ob_local_now() < end)
		nanosleep(&pause, NULL);
}
