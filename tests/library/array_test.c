// SPDX-License-Identifier: GPL-2.0-only
/*
 * A halt marks an array of md as clean that the program has not stopped: array_test IMAGE IMAGE
 *
 * Else each later assembly would synchronise the members. The array is a mirror of both images.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/ioctl.h>
#include <linux/major.h>
#include <linux/types.h>
#include <linux/raid/md_p.h>
#include <linux/raid/md_u.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "client.h"

#define MEMBERS 2
#define NODE "/md"
/* Of the versions before 1.0: the last whole 64 KB, less that. */
#define SUPERBLOCK(size) (((size) & ~0xffffl) - 0x10000)

static void write_file(const char *path, const char *text)
{
	int fd = (int)OK(ob_sys_openat(AT_FDCWD, path, O_WRONLY, 0));

	CHECK_EQUAL(OK(ob_sys_write(fd, text, strlen(text))), strlen(text));
	OK(ob_sys_close(fd));
}

/* As the host has it in the image. */
static bool is_clean(const char *image)
{
	static mdp_super_t block;
	struct stat status;
	int fd = open(image, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0 && !fstat(fd, &status));
	CHECK_EQUAL(pread(fd, &block, sizeof(block), SUPERBLOCK(status.st_size)), sizeof(block));
	CHECK(!close(fd));
	CHECK_EQUAL(block.md_magic, MD_SB_MAGIC);
	return block.state & (1 << MD_SB_CLEAN);
}

static void add_member(int array, int number, const char *image)
{
	struct ob_disk_config disk = { .size = sizeof(disk), .path = image };
	mdu_disk_info_t member = {
		.number = number, .raid_disk = number,
		.state = 1 << MD_DISK_ACTIVE | 1 << MD_DISK_SYNC,
	};
	char name[32], path[64];
	struct stat status;

	CHECK(ob_disk_add(&disk, name) >= 0);
	snprintf(path, sizeof(path), "/dev/%s", name);
	OK(ob_sys_newfstatat(AT_FDCWD, path, &status, 0));
	member.major = (int)major(status.st_rdev);
	member.minor = (int)minor(status.st_rdev);
	OK(ob_sys_ioctl(array, ADD_NEW_DISK, (unsigned long)&member));
}

/* Makes the array, and returns its open device. */
static int make_array(char **images)
{
	mdu_array_info_t array = {
		.minor_version = 90, .level = 1, .size = 8 << 10, .nr_disks = MEMBERS,
		.raid_disks = MEMBERS, .state = 1 << MD_SB_CLEAN, .active_disks = MEMBERS,
		.working_disks = MEMBERS,
	};
	int fd;

	CHECK_EQUAL(ob_component_load("raid1", NULL), 0);
	OK(ob_sys_mknodat(AT_FDCWD, NODE, S_IFBLK | 0600, makedev(MD_MAJOR, 0)));
	fd = (int)OK(ob_sys_openat(AT_FDCWD, NODE, O_RDWR, 0));
	OK(ob_sys_ioctl(fd, SET_ARRAY_INFO, (unsigned long)&array));
	for (int i = 0; i < MEMBERS; i++)
		add_member(fd, i, images[i]);
	OK(ob_sys_ioctl(fd, RUN_ARRAY, 0));
	return fd;
}

int main(int count, char **arguments)
{
	int fd;

	CHECK_EQUAL(count, 1 + MEMBERS);
	client_boot(2);
	fd = make_array(arguments + 1);
	/* md does not mark it clean by itself when there were no writes for a while. */
	write_file("/sys/block/md0/md/safe_mode_delay", "0");
	CHECK_EQUAL(OK(ob_sys_pwrite64(fd, "x", 1, 0)), 1);
	OK(ob_sys_fsync(fd));
	for (int i = 0; i < MEMBERS; i++)
		CHECK(!is_clean(arguments[1 + i]));
	OK(ob_halt());
	for (int i = 0; i < MEMBERS; i++)
		CHECK(is_clean(arguments[1 + i]));
	return 0;
}
