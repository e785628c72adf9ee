// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that closes all of its descriptors, the library's with them: what a disk was asked for
 * afterwards fails, and nothing waits for ever. Argument: an ext4 image with the file /hello.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"

int main(int count, char **arguments)
{
	static char block[4096];
	int new, old;

	CHECK_EQUAL(count, 2);
	client_boot(2);
	client_mount(arguments[1], "ext4", "/disk");
	old = (int)OK(ob_sys_open("/disk/hello", O_RDONLY, 0));
	new = (int)OK(ob_sys_open("/disk/new", O_WRONLY | O_CREAT, 0600));
	CHECK_EQUAL(OK(ob_sys_write((unsigned int)new, block, sizeof(block))), sizeof(block));
	OK(ob_sys_fsync((unsigned int)new));
	CHECK_EQUAL(syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0), 0);
	CHECK_EQUAL(ob_sys_read((unsigned int)old, block, sizeof(block)), -1);
	CHECK_EQUAL(errno, EIO);
	CHECK_EQUAL(OK(ob_sys_write((unsigned int)new, block, sizeof(block))), sizeof(block));
	CHECK_EQUAL(ob_sys_fsync((unsigned int)new), -1);
	CHECK_EQUAL(errno, EIO);
	/* Calls that need no disk work. */
	CHECK(ob_sys_getppid() >= 0);
	_exit(0);
}
