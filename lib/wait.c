// SPDX-License-Identifier: GPL-2.0-only
/* Waits that no pthread_cancel() ends: a thread that ended there would keep the mutex. */
#define _GNU_SOURCE
#include <outboard/gate.h>

#include "clock.h"
#include "wait.h"

void ob_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_cond_wait(condition, mutex);
	pthread_setcancelstate(before, NULL);
}

bool ob_condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t end)
{
	struct timespec time = { (time_t)(end / 1000), (long)(end % 1000 * 1000000) };
	int before, error;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	error = pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &time);
	pthread_setcancelstate(before, NULL);
	return !error;
}

uint64_t ob_patience_end(void)
{
	return ob_milliseconds() + OB_PATIENCE / 1000000;
}
