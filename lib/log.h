/* SPDX-License-Identifier: GPL-2.0-only */
/* The log: which lines are wanted, and where they go. */
#ifndef OUTBOARD_LIB_LOG_H
#define OUTBOARD_LIB_LOG_H

#include <stddef.h>
#include <stdint.h>

#include <outboard/outboard.h>

#define OB_LOG_NOTHING (-1)
#define OB_LOG_INVALID (-2)

/* The log of one kernel. */
struct ob_log {
	int level;			/* the highest level that is wanted */
	void (*write)(void *context, int level, const char *line, size_t length);
	void *context;
	int file;			/* gets warnings and worse; -1: there is none */
	char process[32];		/* begins each line of the file */
	uint64_t lost;			/* lines that the file did not take; atomic */
};

#define OB_NO_LOG { .level = OB_LOG_NOTHING, .file = -1 }

/*
 * The level that OUTBOARD_LOG names; OB_LOG_NOTHING if it is not set, OB_LOG_INVALID if it names
 * none.
 */
int ob_log_level_from_environment(void);

/*
 * Sets where lines go, before the kernel boots. `level`: the highest that is wanted, or
 * OB_LOG_NOTHING. Returns the highest level that the kernel must print, which is more if
 * OUTBOARD_LOG_FILE names a file.
 */
int ob_log_configure(struct ob_log *log, int level, const struct ob_config *config);

/* Reports lines that were lost and not reported yet. Closes the file. */
void ob_log_close(struct ob_log *log);

/*
 * The program gets no more lines, though threads may write some. The file stays open: its number
 * must not be another file's while a thread uses it.
 */
void ob_log_leave(struct ob_log *log);

/* Receives a line from the platform (an ob_platform_log). `log`: a struct ob_log. */
void ob_log_line(void *log, int level, const char *line, uint64_t length);

#endif
