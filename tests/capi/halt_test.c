// SPDX-License-Identifier: GPL-2.0-only
/* Halt unmounts what a client has made its root, beside more mounts than fit into one list: halt_test IMAGE */
#include <fcntl.h>
#include <unistd.h>

#include "client.h"

#define MOUNTS 1200

int main(int count, char **arguments)
{
	char directory[32];
	int file;

	CHECK_EQUAL(count, 2);
	client_boot(2);
	client_mount(arguments[1], "ext4", "/image");
	for (int i = 0; i < MOUNTS; i++) {
		snprintf(directory, sizeof(directory), "/tmp/%d", i);
		client_tmpfs(directory);
	}
	OK(ob_sys_chroot("/image"));
	OK(ob_sys_chdir("/"));
	file = OK(ob_sys_openat(AT_FDCWD, "/left-open", O_CREAT | O_WRONLY, 0644));
	CHECK_EQUAL(OK(ob_sys_write(file, "abc", 3)), 3);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
