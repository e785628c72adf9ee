/* SPDX-License-Identifier: GPL-2.0-only */
/* Counting the entries of a directory of the host, as /proc/self/fd. */
#ifndef OUTBOARD_TESTS_ENTRIES_H
#define OUTBOARD_TESTS_ENTRIES_H

#include <dirent.h>

#include "check.h"

/* "." and ".." count, too. */
static inline long count_entries(const char *path)
{
	DIR *directory = opendir(path);
	long count = 0;

	CHECK(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

#endif
