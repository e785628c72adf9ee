// SPDX-License-Identifier: GPL-2.0-only
/* Network: lines in the kernel's log. */
#include <string.h>

#include "report.h"

#define LEVEL_WARNING 4
#define LEVEL_INFORMATION 6

void ob_net_warn(struct ob_host *host, const char *text)
{
	ob_host_console_write(host, LEVEL_WARNING, text, strlen(text));
}

void ob_net_inform(struct ob_host *host, const char *text)
{
	ob_host_console_write(host, LEVEL_INFORMATION, text, strlen(text));
}
