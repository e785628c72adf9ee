// SPDX-License-Identifier: GPL-2.0-only
/* Removes snapshots that nobody has used for a month, after each attempt to save one. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "raw.h"
#include "snapshot.h"

#define SUFFIX ".snapshot"
#define KEPT_SECONDS (30 * OB_SNAPSHOT_DAY)
#define KEPT_FILES 64

/* NAME.snapshot, or .NAME.snapshot.RANDOM while it is written. */
static bool is_snapshot(const char *name)
{
	name += *name == '.';
	return strspn(name, "0123456789abcdef") == 16 &&
	       !strncmp(name + 16, SUFFIX, strlen(SUFFIX));
}

/*
 * Removes files that were not used for a month or are half-written, and the oldest one of too many.
 */
void ob_snapshot_clean(struct ob_host *host)
{
	time_t oldest_time = time(NULL);
	char oldest[256] = "";
	int count = 0;

	DIR *directory = fdopendir(
		raw_openat(host->snapshot.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0));
	time_t limit = time(NULL) - KEPT_SECONDS;
	struct dirent *entry;
	struct stat status;

	if (!directory)
		return;
	while ((entry = readdir(directory))) {
		if (!is_snapshot(entry->d_name) ||
		    fstatat(host->snapshot.directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW))
			continue;
		if (status.st_mtime < limit)
			unlinkat(host->snapshot.directory, entry->d_name, 0);
		else
			count++;
		if (status.st_mtime >= limit && status.st_mtime < oldest_time) {
			oldest_time = status.st_mtime;
			snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
		}
	}
	if (count > KEPT_FILES && oldest[0])
		unlinkat(host->snapshot.directory, oldest, 0);
	closedir(directory);
}
