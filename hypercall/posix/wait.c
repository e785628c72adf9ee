// SPDX-License-Identifier: GPL-2.0-only
/* Wait and wake: the host's futex, private to this process. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <limits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define NSEC_PER_SEC 1000000000ull

/*
 * The kernel has added its slack to each timeout already, so the host adds as little as possible.
 */
#define SLACK_NSEC 1ul

static void wait_for(const uint32_t *word, uint32_t value, const struct timespec *timeout)
{
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout, NULL, 0);
}

void ob_host_wait(struct ob_host *host, const uint32_t *word, uint32_t value, uint64_t timeout)
{
	struct timespec relative = {
		.tv_sec = (time_t)(timeout / NSEC_PER_SEC),
		.tv_nsec = (long)(timeout % NSEC_PER_SEC),
	};
	long slack = -1;

	ob_posix_spaces_sleep(host);
	if (timeout == OB_FOREVER) {
		wait_for(word, value, NULL);
		return;
	}
	/* A client's thread has the slack that the program chose, and gets it back. */
	if (timeout < NSEC_PER_SEC)
		slack = syscall(SYS_prctl, PR_GET_TIMERSLACK);	/* prctl() returns an int */
	if (slack > (long)SLACK_NSEC)
		prctl(PR_SET_TIMERSLACK, SLACK_NSEC);
	wait_for(word, value, &relative);
	if (slack > (long)SLACK_NSEC)
		prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
}

uint32_t ob_host_wake(struct ob_host *host, const uint32_t *word, uint32_t count)
{
	long woken = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count > INT_MAX ? INT_MAX : count,
			     NULL, NULL, 0);

	(void)host;
	return woken > 0 ? (uint32_t)woken : 0;
}
