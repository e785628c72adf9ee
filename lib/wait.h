/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits of lib/: wait.c. */
#ifndef OUTBOARD_LIB_WAIT_H
#define OUTBOARD_LIB_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <outboard/patience.h>

/* As pthread_cond_wait(), but no cancellation point. */
void ob_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);

/* A wait for what may never come: OB_PATIENCE. */
struct ob_patience ob_patience_begin(void);
bool ob_patience_is_over(struct ob_patience *patience);

/* As ob_condition_wait(), for a step of the wait. False: the wait is over. */
bool ob_condition_wait_patiently(pthread_cond_t *condition, pthread_mutex_t *mutex,
				 struct ob_patience *patience);

#endif
