// SPDX-License-Identifier: GPL-2.0-only
/* Random bytes. */
#include <errno.h>
#include <sys/random.h>

#include "internal.h"
#include "raw.h"

int ob_host_random(struct ob_host *host, void *buffer, uint64_t size)
{
	unsigned char *next = buffer;

	(void)host;
	while (size) {
		/* A signal never cuts up to 256 bytes short once the host's pool is ready. */
		ssize_t got = raw_getrandom(next, size < 256 ? size : 256, GRND_NONBLOCK);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return -EIO;
		next += got;
		size -= (uint64_t)got;
	}
	return 0;
}
