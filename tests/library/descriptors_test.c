// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that has closed some of its standard descriptors: nothing of the library gets their
 * numbers, so that what the program prints reaches no disk and no memory of the kernel. Arguments:
 * an ext4 image, and the path of a hub.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <outboard/net.h>

#include "client.h"

static int report;
static unsigned int closed;		/* a bit for each descriptor */

static void check_closed(const char *after)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++) {
		char path[32], target[256] = "";

		if (!(closed & 1u << fd) || (fcntl(fd, F_GETFD) < 0 && errno == EBADF))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, target, sizeof(target) - 1) < 0)
			strcpy(target, "unknown");
		dprintf(report, "after %s, descriptor %d is %s\n", after, fd, target);
		_Exit(1);
	}
}

static void expect(int result, const char *step)
{
	if (result < 0) {
		dprintf(report, "%s: %s\n", step, strerror(-result));
		_Exit(1);
	}
	check_closed(step);
}

static void use_disks(const char *image)
{
	struct ob_disk_config config = { .size = sizeof(config), .path = image };
	char path[32];
	int fd, disk;

	disk = ob_disk_add(&config, NULL);
	expect(disk, "ob_disk_add");
	OK(ob_sys_mkdir("/disk", 0755));
	OK(ob_sys_mount("/dev/vda", "/disk", "ext4", 0, NULL));
	OK(ob_sys_umount2("/disk", 0));
	check_closed("mount");
	expect(ob_disk_remove(disk), "ob_disk_remove");

	fd = open(image, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	config.path = path;
	disk = ob_disk_add(&config, NULL);
	CHECK(disk >= 0);
	/* The program's own descriptor got a low number, and may. */
	close(fd);
	check_closed("ob_disk_add of a descriptor");
}

static void use_hub(const char *hub)
{
	char description[300];

	snprintf(description, sizeof(description), "hub:%s", hub);
	expect(ob_net_add(description, NULL), "ob_net_add of a hub");
}

static void use_sockets_of_the_host(void)
{
	long fd;

	expect(ob_net_add("host", NULL), "ob_net_add of the host's sockets");
	fd = OK(ob_sys_socket(AF_INET, SOCK_STREAM, 0));
	check_closed("socket");
	OK(ob_sys_close((int)fd));
}

static int child(const char *image, const char *hub)
{
	struct ob_config config = {
		.size = sizeof(config), .memory = 128 << 20, .vcpus = 2, .log_level = 7,
	};
	long fd;

	for (int i = 0; i <= STDERR_FILENO; i++)
		if (closed & 1u << i)
			close(i);
	ob_prepare();
	check_closed("ob_prepare");
	expect(ob_boot(&config), "ob_boot");
	use_disks(image);
	use_hub(hub);
	/* Memory grows, and the log goes on. */
	fd = OK(ob_sys_memfd_create("", 0));
	OK(ob_sys_ftruncate((unsigned int)fd, 64 << 20));
	OK(ob_sys_fallocate((int)fd, 0, 0, 64 << 20));
	check_closed("growth");
	expect(ob_halt(), "ob_halt");
	expect(ob_boot(&config), "the second ob_boot");
	use_sockets_of_the_host();
	expect(ob_halt(), "the second ob_halt");
	return 0;
}

int main(int count, char **arguments)
{
	static const unsigned int cases[] = { 1, 4, 6, 7 };

	CHECK_EQUAL(count, 3);
	report = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 20);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid_t pid;
		int status;

		closed = cases[i];
		pid = fork();
		if (!pid)
			_exit(child(arguments[1], arguments[2]));
		CHECK(waitpid(pid, &status, 0) == pid);
		if (status)
			dprintf(report, "with the descriptors %#x closed: status %#x\n", closed,
				status);
		CHECK_EQUAL(status, 0);
	}
	return 0;
}
