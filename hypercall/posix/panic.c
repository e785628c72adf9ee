// SPDX-License-Identifier: GPL-2.0-only
/*
 * Panic. Works in a signal handler, so it uses only system calls and abort(3). The program's own
 * handler runs first, and may end the process in its own way.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void ob_platform_set_panic(struct ob_host *host, ob_platform_panic *handler, void *context)
{
	host->panic = handler;
	host->panic_context = context;
}

static __attribute__((noreturn)) void stay(struct ob_host *host)
{
	uint32_t never = 0;

	for (;;)
		ob_host_wait(host, &never, never, OB_FOREVER);
}

void ob_host_panic(struct ob_host *host, const char *message)
{
	unsigned int rest = OB_PLATFORM_PANIC_PRINT;
	struct ob_host *other;

	if (host->panic)
		rest = host->panic(host->panic_context, message, strlen(message));
	if (rest & OB_PLATFORM_PANIC_PRINT) {
		ob_posix_print("outboard: kernel panic: ");
		ob_posix_print(message);
		ob_posix_print("\n");
	}
	if (rest & OB_PLATFORM_PANIC_STAY)
		stay(host);
	ob_for_each_live_host(other)
		ob_posix_ram_skip_unused(other);
	abort();
}
