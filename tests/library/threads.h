/* SPDX-License-Identifier: GPL-2.0-only */
/* Threads of the host. Needs no library: tests of the platform include this, too. */
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

/* 'S' if the host thread sleeps. */
static inline char host_state(pid_t thread)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
	file = fopen(path, "r");
	CHECK(file);
	CHECK(fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
	fclose(file);
	return state;
}

#endif
