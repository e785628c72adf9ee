// SPDX-License-Identifier: GPL-2.0-only
/* The log: OUTBOARD_LOG, OUTBOARD_LOG_FILE, and the way of a line to the program, to standard error and to that file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "log.h"
#include "raw.h"

#define LEVEL_OF_FILE 4		/* warning */

static const char *const level_names[] = {
	"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
};

static struct {
	int level;
	void (*write)(void *context, int level, const char *line, size_t length);
	void *context;
	int file;			/* gets warnings and worse; -1: there is none */
	char process[32];		/* begins each line of the file */
} log_state = { .level = OB_LOG_NOTHING, .file = -1 };

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

/* One system call per line, so that lines of several threads do not mix. */
static void write_to_stderr(void *context, int level, const char *line, size_t length)
{
	struct iovec parts[2] = {
		{ .iov_base = (void *)line, .iov_len = length },
		{ .iov_base = (void *)"\n", .iov_len = 1 },
	};
	ssize_t written = raw_writev(STDERR_FILENO, parts, 2);

	/* There is nowhere to report that a log line is lost. */
	(void)written;
	(void)context;
	(void)level;
}

static void append_to_file(const char *line, size_t length)
{
	struct iovec parts[3] = {
		{ .iov_base = log_state.process, .iov_len = strlen(log_state.process) },
		{ .iov_base = (void *)line, .iov_len = length },
		{ .iov_base = (void *)"\n", .iov_len = 1 },
	};
	ssize_t written = raw_writev(log_state.file, parts, 3);

	(void)written;
}

/* A file that cannot be opened is none: programs run with other rights than the test that wants to see warnings. */
static void open_file(void)
{
	const char *path = secure_getenv("OUTBOARD_LOG_FILE");

	if (log_state.file >= 0)
		raw_close(log_state.file);
	log_state.file = -1;
	if (!path || !*path)
		return;
	log_state.file = raw_openat(AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC |
				    O_NOCTTY | O_NONBLOCK, 0666);
	snprintf(log_state.process, sizeof(log_state.process), "outboard %d: ", (int)getpid());
}

int ob_log_configure(int level, const struct ob_config *config)
{
	open_file();
	log_state.level = level;
	log_state.write = config->log ? config->log : write_to_stderr;
	log_state.context = config->log_context;
	return log_state.file >= 0 && level < LEVEL_OF_FILE ? LEVEL_OF_FILE : level;
}

void ob_log_line(void *context, int level, const char *line, uint64_t length)
{
	(void)context;
	if (log_state.file >= 0 && level <= LEVEL_OF_FILE)
		append_to_file(line, length);
	if (level <= log_state.level)
		log_state.write(log_state.context, level, line, length);
}
