// SPDX-License-Identifier: GPL-2.0-only
/* Messages, the end of a kernel, random numbers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "internal.h"

void ob_host_console_write(struct ob_host *host, int level, const char *line, uint64_t length)
{
	if (host->options.log)
		host->options.log(level, line, length);
	else if (level <= (int)host->options.log_level)
		fprintf(stderr, "%.*s\n", (int)length, line);
}

void ob_host_panic(struct ob_host *host, const char *message)
{
	(void)host;
	fprintf(stderr, "mock: panic: %s\n", message);
	abort();
}

int ob_host_random(struct ob_host *host, void *buffer, uint64_t size)
{
	(void)host;
	return getrandom(buffer, size, 0) == (ssize_t)size ? 0 : -EIO;
}
