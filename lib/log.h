/* SPDX-License-Identifier: GPL-2.0-only */
/* The log: which lines are wanted, and where they go. */
#ifndef OUTBOARD_LIB_LOG_H
#define OUTBOARD_LIB_LOG_H

#include <stdint.h>

#include <outboard/outboard.h>

#define OB_LOG_NOTHING (-1)
#define OB_LOG_INVALID (-2)

/* The level that OUTBOARD_LOG names; OB_LOG_NOTHING if it is not set, OB_LOG_INVALID if it names none. */
int ob_log_level_from_environment(void);

/*
 * Sets where lines go; `level`: the last that is wanted, or OB_LOG_NOTHING. Before the kernel boots. Returns the last
 * level that the kernel must print, which is more if OUTBOARD_LOG_FILE names a file.
 */
int ob_log_configure(int level, const struct ob_config *config);

/* Takes a line from the platform (an ob_posix_log). */
void ob_log_line(void *context, int level, const char *line, uint64_t length);

#endif
