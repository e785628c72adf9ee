// SPDX-License-Identifier: GPL-2.0-only
/* Waits that no pthread_cancel() ends: a thread that ended there would keep the mutex. */
#define _GNU_SOURCE
#include "clock.h"
#include "wait.h"

#define NSEC_PER_MSEC 1000000ull

void ob_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_cond_wait(condition, mutex);
	pthread_setcancelstate(before, NULL);
}

/* `end`: of ob_milliseconds(). */
static void wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t end)
{
	struct timespec time = { (time_t)(end / 1000), (long)(end % 1000 * 1000000) };
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &time);
	pthread_setcancelstate(before, NULL);
}

struct ob_patience ob_patience_begin(void)
{
	return ob_patience_of(ob_milliseconds() * NSEC_PER_MSEC, OB_PATIENCE);
}

bool ob_patience_is_over(struct ob_patience *patience)
{
	return ob_patience_ends(patience, ob_milliseconds() * NSEC_PER_MSEC);
}

bool ob_condition_wait_patiently(pthread_cond_t *condition, pthread_mutex_t *mutex,
				 struct ob_patience *patience)
{
	if (ob_patience_is_over(patience))
		return false;
	wait_until(condition, mutex, ob_milliseconds() + OB_PATIENCE_STEP / NSEC_PER_MSEC);
	return true;
}
