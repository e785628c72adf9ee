// SPDX-License-Identifier: GPL-2.0-only
/*
 * The thread that has worked on a disk goes on with what waits for the disk: no request of the
 * journal wakes the vCPU's carrier. Argument: an ext4 image.
 *
 * For each fsync a client wakes the carrier twice: when the data is written, and to commit. The
 * journal's thread then makes two requests, one after the other. The disk takes a millisecond for
 * each, so all threads that wait sleep. Prints how often the carrier slept for each fsync.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "../invariants/model_disk.h"
#include "client.h"

#define FILES 100

/* How often the threads of that name have slept. */
static long sleeps(const char *wanted)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	long all = 0;

	CHECK(tasks);
	while ((entry = readdir(tasks))) {
		char path[300], line[200], name[100] = "";
		FILE *file;
		long count;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
		while (file && fgets(line, sizeof(line), file)) {
			sscanf(line, "Name: %99s", name);
			if (sscanf(line, "voluntary_ctxt_switches: %ld", &count) == 1 &&
			    !strcmp(name, wanted))
				all += count;
		}
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return all;
}

int main(int count, char **arguments)
{
	long before;

	CHECK_EQUAL(count, 2);
	model_disk_delay = 1000;
	client_boot(1);
	client_mount(arguments[1], "ext4", "/disk");
	before = sleeps("outboard-cpu");
	for (int i = 0; i < FILES; i++) {
		char path[32];
		int fd;

		snprintf(path, sizeof(path), "/disk/file%d", i);
		fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0644));
		CHECK_EQUAL(OK(ob_sys_write(fd, "contents", 8)), 8);
		OK(ob_sys_fsync(fd));
		OK(ob_sys_close(fd));
	}
	printf("%.2f\n", (double)(sleeps("outboard-cpu") - before) / FILES);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
