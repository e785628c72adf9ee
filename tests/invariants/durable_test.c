// SPDX-License-Identifier: GPL-2.0-only
/*
 * Data reported durable are on stable storage (V11): durable_test IMAGE COPY TYPE WAY
 *
 * The program writes a file in the given way, and kills itself at once when the call has returned.
 * The disk loses its write cache then (model_disk.h). COPY, a copy of the image, gets only the data
 * that were flushed. TYPE is the file system's.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../library/client.h"
#include "model_disk.h"

static void power_cut(void)
{
	kill(getpid(), SIGKILL);
}

static void finish(const char *way, int fd, int directory)
{
	if (!strcmp(way, "fsync"))
		OK(ob_sys_fsync(fd));
	else if (!strcmp(way, "fdatasync"))
		OK(ob_sys_fdatasync(fd));
	else if (!strcmp(way, "syncfs"))
		OK(ob_sys_syncfs(directory));
	else if (!strcmp(way, "sync"))
		OK(ob_sys_sync());
	else if (!strcmp(way, "umount"))
		OK(ob_sys_close(fd) + ob_sys_close(directory) + ob_sys_umount2("/disk", 0));
	else
		CHECK(!strcmp(way, "O_SYNC") || !strcmp(way, "nothing"));
	power_cut();
}

int main(int count, char **arguments)
{
	int flags = O_RDWR | O_CREAT | O_TRUNC, fd, directory;
	char text[32], path[64];

	CHECK_EQUAL(count, 5);
	model_disk_stable = arguments[2];
	client_boot(2);
	client_mount(arguments[1], arguments[3], "/disk");
	directory = (int)OK(ob_sys_openat(AT_FDCWD, "/disk", O_RDONLY | O_DIRECTORY, 0));
	snprintf(path, sizeof(path), "/disk/by-%s", arguments[4]);
	if (!strcmp(arguments[4], "O_SYNC"))
		flags |= O_SYNC;
	fd = (int)OK(ob_sys_openat(AT_FDCWD, path, flags, 0644));
	for (int i = 0; i < 1000; i++) {
		int length = snprintf(text, sizeof(text), "%s %d\n", arguments[4], i);

		/* One call that is flushed by itself is enough. */
		if (flags & O_SYNC && i > 20)
			break;
		CHECK_EQUAL(OK(ob_sys_write(fd, text, (size_t)length)), length);
	}
	finish(arguments[4], fd, directory);
	return 1;
}
