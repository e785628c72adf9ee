// SPDX-License-Identifier: GPL-2.0-only
/* Owners of descriptors that a fork()ed child closes: fork_owner.h. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "fork_owner.h"
#include "raw.h"

/*
 * Changed under the mutex. A child finds a whole list at any moment: each change of it is one
 * store.
 */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ob_fork_owner *first;

void ob_fork_owner_add(struct ob_fork_owner *owner, void (*close)(struct ob_fork_owner *owner))
{
	owner->close = close;
	pthread_mutex_lock(&mutex);
	owner->next = first;
	__atomic_store_n(&first, owner, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&mutex);
}

void ob_fork_owner_remove(struct ob_fork_owner *owner)
{
	struct ob_fork_owner **place = &first;

	pthread_mutex_lock(&mutex);
	while (*place && *place != owner)
		place = &(*place)->next;
	if (*place)
		__atomic_store_n(place, owner->next, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&mutex);
}

/* Held by a thread that closes, and by one that forks. */
static pthread_mutex_t closing = PTHREAD_MUTEX_INITIALIZER;
static __thread bool is_held;

/*
 * The two wait for each other a second at most. They may never come: a signal handler forks and has
 * interrupted its own thread, or a hook of the program waits for what the other thread holds.
 */
static bool lock_closing(void)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec++;
	return !pthread_mutex_clocklock(&closing, CLOCK_MONOTONIC, &end);
}

void ob_fork_owners_hold(void)
{
	is_held = lock_closing();
}

void ob_fork_owners_go_on(void)
{
	if (is_held)
		pthread_mutex_unlock(&closing);
	is_held = false;
}

void ob_fork_owners_close(void)
{
	pthread_mutex_init(&mutex, NULL);
	pthread_mutex_init(&closing, NULL);
	is_held = false;
	for (struct ob_fork_owner *owner = first; owner; owner = owner->next)
		owner->close(owner);
	first = NULL;
}

void ob_fork_owner_drop(int *fd)
{
	bool locked = lock_closing();
	int closed = __atomic_exchange_n(fd, -1, __ATOMIC_SEQ_CST);

	if (closed >= 0)
		raw_close(closed);
	if (locked)
		pthread_mutex_unlock(&closing);
}
