// SPDX-License-Identifier: GPL-2.0-only
/* The log: OUTBOARD_LOG, and the way of a line to the program or to standard error. */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "log.h"
#include "raw.h"

static const char *const level_names[] = {
	"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
};

static struct {
	int level;
	void (*write)(void *context, int level, const char *line, size_t length);
	void *context;
} log_state = { .level = OB_LOG_NOTHING };

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

void ob_log_configure(int level, const struct ob_config *config)
{
	log_state.level = level;
	log_state.write = config->log ? config->log : write_to_stderr;
	log_state.context = config->log_context;
}

void ob_log_line(int level, const char *line, uint64_t length)
{
	if (level <= log_state.level)
		log_state.write(log_state.context, level, line, length);
}
