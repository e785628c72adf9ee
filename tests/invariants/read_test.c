// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mounts an image, which replays its journal, prints a file of it, halts. Arguments: an image, its
 * type, a path in it.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "../library/client.h"

int main(int count, char **arguments)
{
	char block[4096], path[256];
	long bytes;
	int fd;

	CHECK_EQUAL(count, 4);
	client_boot(2);
	client_mount(arguments[1], arguments[2], "/disk");
	snprintf(path, sizeof(path), "/disk/%s", arguments[3]);
	fd = ob_sys_openat(AT_FDCWD, path, O_RDONLY, 0);
	while (fd >= 0 && (bytes = OK(ob_sys_read(fd, block, sizeof(block)))) > 0)
		CHECK(write(STDOUT_FILENO, block, (size_t)bytes) == bytes);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
