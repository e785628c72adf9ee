// SPDX-License-Identifier: GPL-2.0-only
/*
 * Halt unmounts what cannot be seen from where the halting thread stands: halt_test WAY IMAGE
 *
 * WAY: chroot  the image is the clients' root, beside more mounts than fit into one list
 *      over    the image is moved over the root
 *      apart   another thread mounts it in name spaces of its own, with files of its own
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "client.h"

#define MOUNTS 1200

/* Left open. */
static void write_file(const char *path)
{
	int file = (int)OK(ob_sys_openat(AT_FDCWD, path, O_CREAT | O_WRONLY, 0644));

	CHECK_EQUAL(OK(ob_sys_write(file, "abc", 3)), 3);
}

static void in_chroot(const char *image)
{
	char directory[32];

	client_mount(image, "ext4", "/image");
	for (int i = 0; i < MOUNTS; i++) {
		snprintf(directory, sizeof(directory), "/tmp/%d", i);
		client_tmpfs(directory);
	}
	OK(ob_sys_chroot("/image"));
	OK(ob_sys_chdir("/"));
	write_file("/left-open");
}

static void over_root(const char *image)
{
	client_mount(image, "ext4", "/image");
	OK(ob_sys_mount("/image", "/", NULL, MS_MOVE, NULL));
	write_file("/../left-open");
}

static pthread_barrier_t mounted;

static void *apart_main(void *image)
{
	OK(ob_sys_unshare(CLONE_NEWNS | CLONE_FILES));
	client_mount(image, "ext4", "/image");
	write_file("/image/left-open");
	pthread_barrier_wait(&mounted);
	pause();
	return NULL;
}

static void apart(char *image)
{
	pthread_t thread;

	pthread_barrier_init(&mounted, NULL, 2);
	CHECK_EQUAL(pthread_create(&thread, NULL, apart_main, image), 0);
	pthread_barrier_wait(&mounted);
	CHECK_EQUAL(ob_sys_faccessat(AT_FDCWD, "/image/left-open", F_OK), -1);
}

int main(int count, char **arguments)
{
	CHECK_EQUAL(count, 3);
	client_boot(2);
	if (!strcmp(arguments[1], "chroot"))
		in_chroot(arguments[2]);
	else if (!strcmp(arguments[1], "over"))
		over_root(arguments[2]);
	else
		apart(arguments[2]);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
