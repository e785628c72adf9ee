// SPDX-License-Identifier: GPL-2.0-only
/* Console: passes log lines to the function that lib/ has set. */
#include <pthread.h>

#include "internal.h"

void ob_posix_set_log(struct ob_host *host, ob_platform_log *log, void *context)
{
	host->log = log;
	host->log_context = context;
}

void ob_host_console_write(struct ob_host *host, int level, const char *line, uint64_t length)
{
	int before;

	if (!host->log)
		return;
	/* The function is the program's, and may call cancellation points: raw.h. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	host->log(host->log_context, level, line, length);
	pthread_setcancelstate(before, NULL);
}
