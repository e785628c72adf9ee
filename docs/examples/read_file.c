// SPDX-License-Identifier: GPL-2.0-only
/* Writes a file of an ext4 image to standard output: read_file IMAGE /PATH */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include <outboard/outboard.h>
#include <outboard/syscalls.h>

int main(int count, char **arguments)
{
	struct ob_disk_config disk = { .size = sizeof(disk), .flags = OB_DISK_READ_ONLY };
	char name[32], device[48], path[4096], buffer[65536];
	long file, length;
	int error;

	if (count != 3)
		return 2;
	error = ob_boot(NULL);
	if (error)
		return fprintf(stderr, "boot: %s\n", ob_boot_error()), 1;
	disk.path = arguments[1];
	error = ob_disk_add(&disk, name);
	if (error < 0)
		return fprintf(stderr, "%s: %s\n", arguments[1], strerror(-error)), 1;
	snprintf(device, sizeof(device), "/dev/%s", name);
	snprintf(path, sizeof(path), "/mnt%s", arguments[2]);
	ob_sys_mkdir("/mnt", 0755);
	if (ob_sys_mount(device, "/mnt", "ext4", MS_RDONLY, NULL) < 0)
		return perror("mount"), 1;
	file = ob_sys_open(path, O_RDONLY, 0);
	if (file < 0)
		return perror(arguments[2]), 1;
	while ((length = ob_sys_read(file, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, length, stdout);
	return ob_halt() != 0;
}
