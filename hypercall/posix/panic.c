// SPDX-License-Identifier: GPL-2.0-only
/*
 * Panic. Works in a signal handler, so it uses only system calls and abort(3). The program's own
 * handler runs first, and may end the process in its own way.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "block.h"
#include "internal.h"
#include "raw.h"

void ob_platform_set_panic(struct ob_host *host, ob_platform_panic *handler, void *context)
{
	host->panic = handler;
	host->panic_context = context;
}

static void print(const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t written = raw_write(STDERR_FILENO, text, left);

		if (written <= 0)
			return;
		text += written;
		left -= (size_t)written;
	}
}

static __attribute__((noreturn)) void stay(struct ob_host *host)
{
	uint32_t never = 0;

	ob_block_queue_panicked(host);
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
		print("outboard: kernel panic: ");
		print(message);
		print("\n");
	}
	if (rest & OB_PLATFORM_PANIC_STAY)
		stay(host);
	ob_for_each_live_host(other)
		ob_posix_ram_skip_unused(other);
	abort();
}
