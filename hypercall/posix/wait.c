// SPDX-License-Identifier: GPL-2.0-only
/* Wait and wake: the host's futex, private to this process. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define NSEC_PER_SEC 1000000000ull

void ob_host_wait(const uint32_t *word, uint32_t value, uint64_t timeout)
{
	struct timespec relative = {
		.tv_sec = (time_t)(timeout / NSEC_PER_SEC),
		.tv_nsec = (long)(timeout % NSEC_PER_SEC),
	};

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value,
		timeout == OB_FOREVER ? NULL : &relative, NULL, 0);
}

uint32_t ob_host_wake(const uint32_t *word, uint32_t count)
{
	long woken = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count > INT_MAX ? INT_MAX : count,
			     NULL, NULL, 0);

	return woken > 0 ? (uint32_t)woken : 0;
}
