/* SPDX-License-Identifier: GPL-2.0-only */
/* Waits of lib/: wait.c. */
#ifndef OUTBOARD_LIB_WAIT_H
#define OUTBOARD_LIB_WAIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* As pthread_cond_wait(), but no cancellation point. */
void ob_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);

/* The same, until a time of ob_milliseconds(). False: the time is over. */
bool ob_condition_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t end);

/* When a wait that begins now for what may never come ends: OB_PATIENCE. */
uint64_t ob_patience_end(void);

#endif
