/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits of lib/: wait.c. */
#ifndef OUTBOARD_LIB_WAIT_H
#define OUTBOARD_LIB_WAIT_H

#include <pthread.h>

/* As pthread_cond_wait(), but no cancellation point. */
void ob_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);

#endif
