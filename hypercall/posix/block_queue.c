// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block: worker threads for requests that may block, and the list of completed requests.
 *
 * Both lists are stacks. A thread pushes with one compare-and-swap, and takes a whole stack with
 * one exchange. So there is no ABA problem, and a submitter never waits for a worker. The thread
 * that takes a stack reverses it into the order of arrival.
 *
 *   submitter --push--> inbox --exchange, by one worker at a time--> waiting --> a worker
 *   worker --push--> completed --exchange--> kernel
 *
 * Sleeping: a worker reads `arrivals`, finds nothing to do, counts itself as a sleeper and waits
 * while `arrivals` is unchanged. A submitter pushes, counts the arrival, and wakes a worker if
 * there are sleepers. Either the submitter sees the sleeper, or the sleeper sees the arrival.
 *
 * One worker starts with the first disk. A worker that is about to block starts another one first
 * if no other worker sleeps. A submitter starts no threads, because it holds a vCPU.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "block.h"

#define WORKERS OB_BLOCK_WORKERS

static void push(struct ob_block_request **stack, struct ob_block_request *request)
{
	struct ob_block_request *head = __atomic_load_n(stack, __ATOMIC_RELAXED);

	do {
		request->next = head;
	} while (!__atomic_compare_exchange_n(stack, &head, request, true,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* Takes a whole stack. Returns the oldest request, and the newest in *last. */
static struct ob_block_request *take_all(struct ob_block_request **stack,
					 struct ob_block_request **last)
{
	struct ob_block_request *request = __atomic_exchange_n(stack, NULL, __ATOMIC_ACQUIRE);
	struct ob_block_request *reversed = NULL;

	*last = request;
	while (request) {
		struct ob_block_request *next = request->next;

		request->next = reversed;
		reversed = request;
		request = next;
	}
	return reversed;
}

struct ob_block_request *ob_host_block_completed(struct ob_host *host)
{
	struct ob_block_request *last;

	return take_all(&host->queue.completed, &last);
}

static void wake_worker(struct ob_host *host, uint32_t count)
{
	__atomic_add_fetch(&host->queue.arrivals, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&host->queue.sleepers, __ATOMIC_SEQ_CST))
		ob_host_wake(host, &host->queue.arrivals, count);
}

void ob_block_queue_add(struct ob_host *host, struct ob_block_request *request)
{
	push(&host->queue.inbox, request);
	wake_worker(host, 1);
}

/* The oldest request that no worker has taken yet, or NULL. */
static struct ob_block_request *take_oldest(struct ob_host *host)
{
	struct ob_block_request *request, *last;

	pthread_mutex_lock(&host->queue.mutex);
	request = take_all(&host->queue.inbox, &last);
	if (request) {
		if (host->queue.waiting)
			host->queue.waiting_last->next = request;
		else
			host->queue.waiting = request;
		host->queue.waiting_last = last;
	}
	request = host->queue.waiting;
	if (request)
		host->queue.waiting = request->next;
	pthread_mutex_unlock(&host->queue.mutex);
	return request;
}

static void complete(struct ob_host *host, struct ob_block_request *request)
{
	struct ob_posix_disk *disk = ob_posix_disk_find(host, request->disk);

	request->result = disk ? ob_posix_disk_perform(disk, request) : -ENODEV;
	push(&host->queue.completed, request);
	host->upcalls->interrupt(OB_INTERRUPT_BLOCK);
}

static void sleep_until_arrival(struct ob_host *host, uint32_t seen)
{
	__atomic_add_fetch(&host->queue.sleepers, 1, __ATOMIC_SEQ_CST);
	ob_host_wait(host, &host->queue.arrivals, seen, OB_FOREVER);
	__atomic_sub_fetch(&host->queue.sleepers, 1, __ATOMIC_SEQ_CST);
}

static void work(void *pointer);

/* Returns 0 also if the number of workers is at its limit. */
static int start_worker(struct ob_host *host)
{
	uint32_t count;
	int error = 0;

	pthread_mutex_lock(&host->queue.start_mutex);
	count = host->queue.worker_count;
	if (count < WORKERS && !__atomic_load_n(&host->queue.stopping, __ATOMIC_ACQUIRE)) {
		error = ob_host_thread_create(host, work, host, "outboard-block",
					      &host->queue.workers[count]);
		if (!error)
			__atomic_store_n(&host->queue.worker_count, count + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&host->queue.start_mutex);
	return error;
}

/*
 * The calling worker may block for long. Leaves another worker asleep for those that submit
 * meanwhile.
 */
static void leave_another(struct ob_host *host)
{
	if (__atomic_load_n(&host->queue.worker_count, __ATOMIC_ACQUIRE) < WORKERS &&
	    !__atomic_load_n(&host->queue.sleepers, __ATOMIC_SEQ_CST))
		/* If no worker starts, requests wait for the workers that exist. */
		start_worker(host);
}

static void work(void *pointer)
{
	struct ob_host *host = pointer;

	for (;;) {
		uint32_t seen = __atomic_load_n(&host->queue.arrivals, __ATOMIC_SEQ_CST);
		struct ob_block_request *request = take_oldest(host);

		if (request) {
			leave_another(host);
			complete(host, request);
		} else if (__atomic_load_n(&host->queue.stopping, __ATOMIC_ACQUIRE)) {
			return;
		} else {
			sleep_until_arrival(host, seen);
		}
	}
}

/* A worker that a disk holds up stays, for later requests if there are any. */
static void stop_workers(struct ob_host *host)
{
	struct ob_patience patience = ob_posix_patience_begin(host);

	/* A worker starts others before this point, or not at all. */
	pthread_mutex_lock(&host->queue.start_mutex);
	__atomic_store_n(&host->queue.stopping, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&host->queue.start_mutex);
	wake_worker(host, WORKERS);
	while (host->queue.worker_count)
		if (!ob_posix_thread_join_until(host,
						host->queue.workers[--host->queue.worker_count],
						&patience))
			ob_posix_leave_behind(host);
	host->queue.stopping = false;
}

int ob_block_queue_get(struct ob_host *host)
{
	int error = 0;

	pthread_mutex_lock(&host->queue.users_mutex);
	if (host->queue.users == 0)
		error = start_worker(host);
	if (!error)
		host->queue.users++;
	pthread_mutex_unlock(&host->queue.users_mutex);
	return error;
}

void ob_block_queue_forked(struct ob_host *host)
{
	memset(&host->queue, 0, sizeof(host->queue));
	pthread_mutex_init(&host->queue.mutex, NULL);
	pthread_mutex_init(&host->queue.users_mutex, NULL);
	pthread_mutex_init(&host->queue.start_mutex, NULL);
}

void ob_block_queue_put(struct ob_host *host)
{
	pthread_mutex_lock(&host->queue.users_mutex);
	if (--host->queue.users == 0)
		stop_workers(host);
	pthread_mutex_unlock(&host->queue.users_mutex);
}
