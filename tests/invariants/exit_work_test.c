// SPDX-License-Identifier: GPL-2.0-only
/*
 * On the way out of the kernel its exit work is done (V9). A close() is complete when it returns: a
 * deleted file's room is free, and the file system can be unmounted; an unmounted file system is
 * clean. The process then ends without a halt. Arguments: an image, its type, "unmount" or "stay"
 * (the second is there to show that what the test looks at in the image differs).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "../library/client.h"

static long free_blocks(void)
{
	struct statfs status;

	OK(ob_sys_statfs("/tmpfs", &status));
	return (long)status.f_bfree;
}

static void room_is_free_at_once(void)
{
	static char block[65536];
	long before = free_blocks();

	for (int i = 0; i < 200; i++) {
		int fd = (int)OK(
			ob_sys_openat(AT_FDCWD, "/tmpfs/f", O_RDWR | O_CREAT | O_EXCL, 0644));

		CHECK_EQUAL(OK(ob_sys_write(fd, block, sizeof(block))), sizeof(block));
		OK(ob_sys_unlink("/tmpfs/f"));
		CHECK(free_blocks() < before);
		OK(ob_sys_close(fd));
		CHECK_EQUAL(free_blocks(), before);
	}
}

static void can_be_unmounted_at_once(void)
{
	for (int i = 0; i < 100; i++) {
		int fd;

		OK(ob_sys_mount("none", "/other", "tmpfs", 0, NULL));
		fd = (int)OK(ob_sys_openat(AT_FDCWD, "/other/f", O_RDWR | O_CREAT, 0644));
		CHECK_EQUAL(ob_sys_umount2("/other", 0), -1);
		OK(ob_sys_close(fd));
		OK(ob_sys_umount2("/other", 0));
	}
}

int main(int count, char **arguments)
{
	static char text[100000];
	int fd;

	CHECK_EQUAL(count, 4);
	client_boot(0);
	client_tmpfs("/tmpfs");
	OK(ob_sys_mkdir("/other", 0755));
	room_is_free_at_once();
	can_be_unmounted_at_once();
	client_mount(arguments[1], arguments[2], "/disk");
	memset(text, 'k', sizeof(text));
	OK(ob_sys_mkdir("/disk/directory", 0755));
	fd = (int)OK(ob_sys_openat(AT_FDCWD, "/disk/directory/kept", O_RDWR | O_CREAT, 0644));
	CHECK_EQUAL(OK(ob_sys_write(fd, text, sizeof(text))), sizeof(text));
	OK(ob_sys_close(fd));
	if (strcmp(arguments[3], "unmount") == 0)
		OK(ob_sys_umount2("/disk", 0));
	else
		OK(ob_sys_sync());
	_exit(0);
}
