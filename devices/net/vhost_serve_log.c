// SPDX-License-Identifier: GPL-2.0-only
/* vhost-user: lines of a server's log. */
#include <stdarg.h>
#include <stdio.h>

#include "vhost_serve.h"

void ob_server_say(struct ob_net_server *s, const char *format, ...)
{
	void (*log)(void *, const char *) = __atomic_load_n(&s->log, __ATOMIC_ACQUIRE);
	char line[256];
	va_list arguments;
	int length;

	if (!log)
		return;
	length = snprintf(line, sizeof(line), "vhost-user %.107s: ", s->path);
	va_start(arguments, format);
	vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
	va_end(arguments);
	log(s->log_context, line);
}
