// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loads a component of components/. Arguments: the module's file, its parameters, the number of
 * vCPUs, and then one of
 *
 *   CPU:NAME:TIMES...   reads /proc/NAME so many times, on that vCPU ("any": wherever), with pauses
 *                       now and then that get the task evicted, and prints what it said last; each
 *                       in a thread of its own, begun a moment after each other
 *   -- IMAGE            before the component is loaded: writes and syncs the file /durable in the
 *                       image, an ext4
 *   on IMAGE TYPE       before the component is loaded: mounts the image on /disk
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "../library/client.h"

#define READERS 64

static void read_once(const char *path, char *text, size_t size)
{
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_RDONLY, 0));
	long length = OK(ob_sys_read(fd, text, size - 1));

	text[length] = '\0';
	OK(ob_sys_close(fd));
}

static void *read_entry(void *argument)
{
	char cpu[8], name[64], path[80], text[256] = "";
	int times;

	CHECK_EQUAL(sscanf(argument, "%7[^:]:%63[^:]:%d", cpu, name, &times), 3);
	if (strcmp(cpu, "any")) {
		unsigned long cpus = 1ul << atoi(cpu);

		OK(ob_sys_sched_setaffinity(0, sizeof(cpus), &cpus));
	}
	snprintf(path, sizeof(path), "/proc/%s", name);
	for (int i = 0; i < times; i++) {
		read_once(path, text, sizeof(text));
		if (i % 20 == 19)
			usleep(25000);
	}
	printf("%s: %s", name, text);
	return NULL;
}

static void read_entries(int count, char **entries)
{
	pthread_t threads[READERS];

	CHECK(count <= READERS);
	CHECK(!ob_sys_mkdir("/proc", 0755) || errno == EEXIST);
	OK(ob_sys_mount("proc", "/proc", "proc", 0, NULL));
	for (int i = 0; i < count; i++) {
		CHECK(!pthread_create(&threads[i], NULL, read_entry, entries[i]));
		usleep(50000 / (unsigned int)count);
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

static void write_durable(const char *image)
{
	static const char text[] = "written before the end\n";
	int fd;

	client_mount(image, "ext4", "/disk");
	fd = (int)OK(ob_sys_openat(AT_FDCWD, "/disk/durable", O_WRONLY | O_CREAT, 0644));
	CHECK_EQUAL(OK(ob_sys_write(fd, text, sizeof(text) - 1)), sizeof(text) - 1);
	OK(ob_sys_fsync(fd));
	OK(ob_sys_mkdir("/disk/perhaps", 0755));
}

int main(int count, char **arguments)
{
	bool mounts;

	CHECK(count >= 4);
	client_boot((unsigned int)atoi(arguments[3]));
	if (count == 6 && !strcmp(arguments[4], "--"))
		write_durable(arguments[5]);
	mounts = count == 7 && !strcmp(arguments[4], "on");
	if (mounts)
		client_mount(arguments[5], arguments[6], "/disk");
	client_load(arguments[1], arguments[2]);
	if (count > 4 && !mounts && strcmp(arguments[4], "--"))
		read_entries(count - 4, arguments + 4);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
