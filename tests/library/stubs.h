/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The host's processes in which programs run, as a test of the library sees them: the zygote is a
 * child of this process after stubs_adopt(), and the stubs are the zygote's children.
 */
#ifndef OUTBOARD_TESTS_STUBS_H
#define OUTBOARD_TESTS_STUBS_H

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define STUBS_MOST 64

/* Before the first program: orphans become children of this process. */
static inline void stubs_adopt(void)
{
	CHECK(!prctl(PR_SET_CHILD_SUBREAPER, 1));
}

/* Fills in the children of a process. Returns how many there are, at most `most`. */
static inline int children_of(pid_t parent, pid_t *children, int most)
{
	char path[64];
	int count = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (count < most && fscanf(file, "%d", &children[count]) == 1)
		count++;
	fclose(file);
	return count;
}

static inline pid_t zygote(void)
{
	pid_t child;

	CHECK_EQUAL(children_of(getpid(), &child, 1), 1);
	return child;
}

/*
 * After a halt: waits until all have ended, and returns how many there were. The zygote reaps
 * stubs, so there is only the zygote itself. One that does not end uses up the time of the test.
 */
static inline int reap_stubs(void)
{
	int ended = 0;

	while (waitpid(-1, NULL, __WALL) > 0)
		ended++;
	CHECK_EQUAL(errno, ECHILD);
	return ended;
}

#endif
