// SPDX-License-Identifier: GPL-2.0-only
/* The snapshot that the program wants, and its status. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "raw.h"
#include "snapshot.h"

int ob_snapshot_report(struct ob_host *host, int error, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(host->snapshot.status, sizeof(host->snapshot.status), format, arguments);
	va_end(arguments);
	return error;
}

int ob_posix_snapshot_request(struct ob_host *host, int directory, const char *name,
			      const char *key)
{
	if (strlen(name) >= sizeof(host->snapshot.name) ||
	    strlen(key) >= sizeof(host->snapshot.key))
		return ob_snapshot_report(host, -ENAMETOOLONG,
					  "not used: the configuration is too long");
	host->snapshot.directory = directory;
	strcpy(host->snapshot.name, name);
	strcpy(host->snapshot.key, key);
	return ob_snapshot_report(host, 0, "not used: this kernel cannot be saved");
}

void ob_platform_snapshot_done(struct ob_host *host)
{
	if (host->snapshot.directory >= 0)
		raw_close(host->snapshot.directory);
	host->snapshot.directory = -1;
}

void ob_posix_snapshot_reset(struct ob_host *host)
{
	host->snapshot.directory = -1;
	host->place = 0;
	ob_snapshot_report(host, 0, "not wanted");
}

/* The parent may be saving a snapshot. */
void ob_posix_snapshot_forked(struct ob_host *host)
{
	ob_platform_snapshot_done(host);
	host->saving.extents = NULL;
	host->saving.count = host->saving.room = host->saving.data_size = 0;
	ob_snapshot_report(host, 0, "not wanted");
}

const char *ob_platform_snapshot_status(struct ob_host *host)
{
	return host->snapshot.status;
}
