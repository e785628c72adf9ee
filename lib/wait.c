// SPDX-License-Identifier: GPL-2.0-only
/* Waits that no pthread_cancel() ends: a thread that ended there would keep the mutex. */
#include "wait.h"

void ob_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_cond_wait(condition, mutex);
	pthread_setcancelstate(before, NULL);
}
