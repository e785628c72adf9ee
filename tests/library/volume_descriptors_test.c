// SPDX-License-Identifier: GPL-2.0-only
/*
 * volume.h in a program that has closed its standard descriptors: what the program prints does not
 * reach the image. Argument: an image with a file /hello.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <outboard/volume.h>

#include "check.h"

static int report;

static void require_closed(const char *after)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) {
			dprintf(report, "after %s, descriptor %d is open\n", after, fd);
			_Exit(1);
		}
}

static int show(void *context, const struct ob_volume_entry *entry)
{
	static const char text[] = "a line of the program\n";

	(void)context;
	(void)entry;
	/* In the middle of a call. */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (write(fd, text, sizeof(text)) >= 0)
			return 1;
	return 0;
}

int main(int count, char **arguments)
{
	struct ob_volume *volume;
	void *data;
	size_t length;

	CHECK_EQUAL(count, 2);
	report = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 20);
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	if (ob_volume_open(arguments[1], NULL, &volume)) {
		dprintf(report, "%s\n", ob_volume_error());
		return 1;
	}
	require_closed("ob_volume_open");
	if (ob_volume_read(volume, "/hello", 1 << 20, &data, &length) ||
	    ob_volume_list(volume, "/", 0, show, NULL)) {
		dprintf(report, "%s\n", ob_volume_error());
		return 1;
	}
	ob_volume_memory_free(data);
	require_closed("ob_volume_list");
	if (ob_volume_close(volume))
		return 1;
	require_closed("ob_volume_close");
	return 0;
}
