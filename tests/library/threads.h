/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads of the host by their names. Needs no library: tests of the platform include it, too. */
#ifndef OUTBOARD_TESTS_THREADS_H
#define OUTBOARD_TESTS_THREADS_H

#include <dirent.h>
#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#include "check.h"

/* False also for a thread that has ended meanwhile. */
static inline bool thread_has_name(const char *thread, const char *wanted)
{
	char path[300], name[32] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", thread);
	file = fopen(path, "r");
	if (!file)
		return false;
	if (fgets(name, sizeof(name), file))
		name[strcspn(name, "\n")] = '\0';
	fclose(file);
	return !strcmp(name, wanted);
}

/*
 * How many threads of this process have the name. `one` (may be NULL): the number of one of them.
 */
static inline int threads_named(const char *name, pid_t *one)
{
	DIR *threads = opendir("/proc/self/task");
	struct dirent *thread;
	int count = 0;

	CHECK(threads);
	while ((thread = readdir(threads))) {
		if (!thread_has_name(thread->d_name, name))
			continue;
		count++;
		if (one)
			*one = atoi(thread->d_name);
	}
	closedir(threads);
	return count;
}

#endif
