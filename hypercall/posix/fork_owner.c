// SPDX-License-Identifier: GPL-2.0-only
/* Owners of descriptors that a fork()ed child closes: fork_owner.h. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

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

/* Forks of this thread: a signal handler may fork in the middle of one. */
static __thread int forks;
static __thread bool is_held;

/*
 * The two wait for each other a second at most. They may never come: a signal handler closes or
 * forks and has interrupted its own thread, or a hook of the program waits for what the other
 * thread holds. No function that waits for a time is used: those are cancellation points, or
 * unknown to the thread sanitizer.
 */
static bool lock_closing(void)
{
	int left;

	for (left = 1000; left && pthread_mutex_trylock(&closing); left--)
		raw_poll(NULL, 0, 1);
	return left;
}

static void hold(void)
{
	if (!forks++)
		is_held = lock_closing();
}

static void go_on(void)
{
	/* In the child of a handler's fork, the handler's own fork was the last one. */
	if (!forks || --forks)
		return;
	if (is_held)
		pthread_mutex_unlock(&closing);
	is_held = false;
}

static pthread_once_t hooks_once = PTHREAD_ONCE_INIT;
static int hooks_error;

static void install_hooks(void)
{
	hooks_error = pthread_atfork(hold, go_on, NULL);
}

int ob_fork_owners_hook(void (*child)(void))
{
	pthread_once(&hooks_once, install_hooks);
	return hooks_error ?: pthread_atfork(NULL, NULL, child);
}

void ob_fork_owners_close(void)
{
	pthread_mutex_init(&mutex, NULL);
	pthread_mutex_init(&closing, NULL);
	forks = 0;
	is_held = false;
	for (struct ob_fork_owner *owner = first; owner; owner = owner->next)
		owner->close(owner);
	first = NULL;
}

void ob_fork_owner_drop(int *fd)
{
	bool locked = !forks && lock_closing();
	int closed = __atomic_exchange_n(fd, -1, __ATOMIC_SEQ_CST);

	if (closed >= 0)
		raw_close(closed);
	if (locked)
		pthread_mutex_unlock(&closing);
}
