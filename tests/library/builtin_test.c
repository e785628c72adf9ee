// SPDX-License-Identifier: GPL-2.0-only
/*
 * A file system that is linked in works where no component can be loaded: builtin_test IMAGE TYPE
 * ROUND
 *
 * Each round looks whether the rounds before have left what they should, and adds to it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "client.h"

#define FILES 200
#define WORDS 5000		/* of a file: more than a page, and no whole number of them */

static int none(void *unused, const struct ob_component_info *info)
{
	(void)unused;
	fprintf(stderr, "there is a component %s\n", info->name);
	_Exit(1);
}

static void nothing_can_be_loaded(void)
{
	CHECK_EQUAL(ob_component_list(none, NULL), -ENOENT);
	CHECK_EQUAL(ob_component_load("loop", NULL), -ENOENT);
	CHECK_EQUAL(ob_sys_mount("none", "/mnt", "overlay", 0, NULL), -1);
	CHECK_EQUAL(errno, ENODEV);
}

static void name_of(char *path, unsigned int round, unsigned int file)
{
	sprintf(path, "/disk/round%u/file%u", round, file);
}

static void fill(unsigned int *words, unsigned int round, unsigned int file)
{
	for (unsigned int i = 0; i < WORDS; i++)
		words[i] = round << 28 ^ file << 16 ^ i;
}

static void write_round(unsigned int round)
{
	static unsigned int words[WORDS];
	char path[64], temporary[] = "/disk/temporary";

	sprintf(path, "/disk/round%u", round);
	OK(ob_sys_mkdir(path, 0755));
	for (unsigned int file = 0; file < FILES; file++) {
		int fd = OK(ob_sys_openat(AT_FDCWD, temporary, O_WRONLY | O_CREAT | O_EXCL, 0644));

		fill(words, round, file);
		CHECK_EQUAL(OK(ob_sys_write(fd, words, sizeof(words))), sizeof(words));
		if (file % 50 == 0)
			OK(ob_sys_fsync(fd));
		OK(ob_sys_close(fd));
		name_of(path, round, file);
		OK(ob_sys_rename(temporary, path));
	}
}

static void check_round(unsigned int round)
{
	static unsigned int words[WORDS], expected[WORDS];
	char path[64];

	for (unsigned int file = 0; file < FILES; file++) {
		int fd;

		name_of(path, round, file);
		fd = OK(ob_sys_openat(AT_FDCWD, path, O_RDONLY, 0));
		fill(expected, round, file);
		CHECK_EQUAL(OK(ob_sys_read(fd, words, sizeof(words))), sizeof(words));
		CHECK(!memcmp(words, expected, sizeof(words)));
		OK(ob_sys_close(fd));
	}
}

int main(int count, char **arguments)
{
	unsigned int round, before;

	CHECK_EQUAL(count, 4);
	round = (unsigned int)atoi(arguments[3]);
	client_boot(2);
	nothing_can_be_loaded();
	client_mount(arguments[1], arguments[2], "/disk");
	for (before = 0; before < round; before++)
		check_round(before);
	write_round(round);
	check_round(round);
	CHECK_EQUAL(ob_halt(), 0);
	return 0;
}
