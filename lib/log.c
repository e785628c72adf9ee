// SPDX-License-Identifier: GPL-2.0-only
/*
 * The log: reads OUTBOARD_LOG and OUTBOARD_LOG_FILE, and passes each line to the program, to
 * standard error and to that file.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <outboard/platform.h>

#include "log.h"

#define LEVEL_OF_FILE 4		/* warning */

static const char *const level_names[] = {
	"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
};

int ob_log_level_from_environment(void)
{
	const char *wanted = getenv("OUTBOARD_LOG");

	if (!wanted || !*wanted)
		return OB_LOG_NOTHING;
	if (wanted[0] >= '0' && wanted[0] <= '7' && !wanted[1])
		return wanted[0] - '0';
	for (int level = 0; level < 8; level++) {
		if (!strcmp(wanted, level_names[level]))
			return level;
	}
	return OB_LOG_INVALID;
}

static void write_to_stderr(void *context, int level, const char *line, size_t length)
{
	(void)context;
	(void)level;
	ob_platform_log_write(OB_PLATFORM_STANDARD_ERROR, "", line, length);
}

void ob_log_close(struct ob_log *log)
{
	if (log->file >= 0)
		ob_platform_log_close(log->file);
	log->file = -1;
}

/*
 * It is no error if the file cannot be opened: the program may have other rights than the test that
 * wants the warnings.
 */
static void open_file(struct ob_log *log)
{
	const char *path = secure_getenv("OUTBOARD_LOG_FILE");

	ob_log_close(log);
	if (!path || !*path)
		return;
	log->file = ob_platform_log_open(path);
	snprintf(log->process, sizeof(log->process), "outboard %d: ", (int)getpid());
}

int ob_log_configure(struct ob_log *log, int level, const struct ob_config *config)
{
	open_file(log);
	log->level = level;
	log->write = config->log ? config->log : write_to_stderr;
	log->context = config->log_context;
	return log->file >= 0 && level < LEVEL_OF_FILE ? LEVEL_OF_FILE : level;
}

void ob_log_line(void *argument, int level, const char *line, uint64_t length)
{
	const struct ob_log *log = argument;

	if (log->file >= 0 && level <= LEVEL_OF_FILE)
		ob_platform_log_write(log->file, log->process, line, length);
	if (level <= log->level)
		log->write(log->context, level, line, length);
}
