// SPDX-License-Identifier: GPL-2.0-only
/* Console: log lines go to the sink that lib/ has set. */
#include <pthread.h>

#include "internal.h"

static ob_posix_log *log_sink;

void ob_posix_set_log(ob_posix_log *log)
{
	log_sink = log;
}

void ob_host_console_write(int level, const char *line, uint64_t length)
{
	int before;

	if (!log_sink)
		return;
	/* The sink is the program's, and may call cancellation points: raw.h. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	log_sink(level, line, length);
	pthread_setcancelstate(before, NULL);
}
