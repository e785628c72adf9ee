// SPDX-License-Identifier: GPL-2.0-only
/*
 * The log: reads OUTBOARD_LOG and OUTBOARD_LOG_FILE, and passes each line to the program, to
 * standard error and to that file.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <outboard/platform_host.h>

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

/* ---- lost lines ----------------------------------------------------------- */

#define LOST_END " lines of the log were lost: nobody read them"

/* Lines that standard error, which all kernels share, did not take. Atomic. */
static uint64_t lost_on_stderr;

/* Writes "outboard: N lines of ..." and returns the length. Works in a signal handler. */
static size_t describe_lost(char text[128], uint64_t count)
{
	static const char begin[] = "outboard: ";
	char digits[20];
	size_t length = sizeof(begin) - 1, used = sizeof(digits);

	do {
		digits[--used] = (char)('0' + count % 10);
		count /= 10;
	} while (count);
	memcpy(text, begin, length);
	memcpy(text + length, digits + used, sizeof(digits) - used);
	length += sizeof(digits) - used;
	memcpy(text + length, LOST_END, sizeof(LOST_END) - 1);
	return length + sizeof(LOST_END) - 1;
}

/* Reports how many lines were lost before, if any. False: that cannot be written either. */
static bool report_lost(int handle, const char *prefix, uint64_t *lost)
{
	uint64_t count = __atomic_exchange_n(lost, 0, __ATOMIC_RELAXED);
	char text[128];

	if (!count || ob_platform_log_write(handle, prefix, text, describe_lost(text, count)))
		return true;
	__atomic_add_fetch(lost, count, __ATOMIC_RELAXED);
	return false;
}

static void write_or_count(int handle, const char *prefix, const char *line, size_t length,
			   uint64_t *lost)
{
	if (!report_lost(handle, prefix, lost) ||
	    !ob_platform_log_write(handle, prefix, line, length))
		__atomic_add_fetch(lost, 1, __ATOMIC_RELAXED);
}

void ob_log_to_stderr(void *context, int level, const char *line, size_t length)
{
	(void)context;
	(void)level;
	write_or_count(OB_PLATFORM_STANDARD_ERROR, "", line, length, &lost_on_stderr);
}

/* ---- the log of one kernel ------------------------------------------------ */

void ob_log_close(struct ob_log *log)
{
	if (log->write == ob_log_to_stderr)
		report_lost(OB_PLATFORM_STANDARD_ERROR, "", &lost_on_stderr);
	if (log->file >= 0) {
		report_lost(log->file, log->process, &log->lost);
		ob_platform_log_close(log->file);
	}
	log->file = -1;
}

void ob_log_leave(struct ob_log *log)
{
	if (log->write == ob_log_to_stderr)
		report_lost(OB_PLATFORM_STANDARD_ERROR, "", &lost_on_stderr);
	__atomic_store_n(&log->level, OB_LOG_NOTHING, __ATOMIC_RELAXED);
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
	log->write = config->log ? config->log : ob_log_to_stderr;
	log->context = config->log_context;
	return log->file >= 0 && level < LEVEL_OF_FILE ? LEVEL_OF_FILE : level;
}

void ob_log_line(void *argument, int level, const char *line, uint64_t length)
{
	struct ob_log *log = argument;

	if (log->file >= 0 && level <= LEVEL_OF_FILE)
		write_or_count(log->file, log->process, line, length, &log->lost);
	if (level <= __atomic_load_n(&log->level, __ATOMIC_RELAXED))
		log->write(log->context, level, line, length);
}
