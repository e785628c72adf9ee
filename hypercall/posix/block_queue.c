// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block: worker threads for requests that may block, and the completed list.
 *
 * Both lists are stacks that are pushed with one compare-and-swap and taken as
 * a whole with one exchange, so there is no ABA problem and a submitter never
 * waits for a worker. Whoever takes a stack reverses it into the order of arrival.
 *
 *   submitter --push--> inbox --exchange, by one worker at a time--> waiting --> a worker
 *   worker --push--> completed --exchange--> kernel
 *
 * Sleeping: a worker reads `arrivals`, finds nothing to do, counts itself as a
 * sleeper and waits while `arrivals` is unchanged. A submitter pushes, counts
 * the arrival, and wakes somebody if there are sleepers. Either it sees the
 * sleeper, or the sleeper sees the arrival.
 *
 * One worker starts with the first disk. A worker that is about to block, while no other one
 * sleeps, starts another first: a submitter holds a vCPU and starts no threads.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "block.h"

#define WORKERS 16

static struct {
	/* Shared with submitters: atomic. */
	struct ob_block_request *inbox;
	struct ob_block_request *completed;
	uint32_t arrivals;
	uint32_t sleepers;
	bool stopping;
	/* Owned by the workers. */
	pthread_mutex_t mutex;
	struct ob_block_request *waiting;	/* oldest first */
	struct ob_block_request *waiting_last;
	/* Owned by whoever opens and closes disks. */
	pthread_mutex_t users_mutex;
	uint32_t users;
	/* Grows with start_mutex held. The last user sets it back, when no request is left. */
	pthread_mutex_t start_mutex;
	uint32_t worker_count;		/* atomic */
	uint64_t workers[WORKERS];
} queue = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.users_mutex = PTHREAD_MUTEX_INITIALIZER,
	.start_mutex = PTHREAD_MUTEX_INITIALIZER,
};

static void push(struct ob_block_request **stack, struct ob_block_request *request)
{
	struct ob_block_request *head = __atomic_load_n(stack, __ATOMIC_RELAXED);

	do {
		request->next = head;
	} while (!__atomic_compare_exchange_n(stack, &head, request, true,
					      __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* Takes all of a stack, oldest first. *last is the newest. */
static struct ob_block_request *take_all(struct ob_block_request **stack, struct ob_block_request **last)
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

struct ob_block_request *ob_host_block_completed(void)
{
	struct ob_block_request *last;

	return take_all(&queue.completed, &last);
}

static void wake_worker(uint32_t count)
{
	__atomic_add_fetch(&queue.arrivals, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&queue.sleepers, __ATOMIC_SEQ_CST))
		ob_host_wake(&queue.arrivals, count);
}

void ob_block_queue_add(struct ob_block_request *request)
{
	push(&queue.inbox, request);
	wake_worker(1);
}

/* The oldest request that no worker has taken yet, or NULL. */
static struct ob_block_request *take_oldest(void)
{
	struct ob_block_request *request, *last;

	pthread_mutex_lock(&queue.mutex);
	request = take_all(&queue.inbox, &last);
	if (request) {
		if (queue.waiting)
			queue.waiting_last->next = request;
		else
			queue.waiting = request;
		queue.waiting_last = last;
	}
	request = queue.waiting;
	if (request)
		queue.waiting = request->next;
	pthread_mutex_unlock(&queue.mutex);
	return request;
}

static void complete(struct ob_block_request *request)
{
	struct ob_disk *disk = ob_disk_find(request->disk);

	request->result = disk ? ob_disk_perform(disk, request) : -ENODEV;
	push(&queue.completed, request);
	ob_kernel_interrupt(OB_INTERRUPT_BLOCK);
}

static void sleep_until_arrival(uint32_t seen)
{
	__atomic_add_fetch(&queue.sleepers, 1, __ATOMIC_SEQ_CST);
	ob_host_wait(&queue.arrivals, seen, OB_FOREVER);
	__atomic_sub_fetch(&queue.sleepers, 1, __ATOMIC_SEQ_CST);
}

static void work(void *unused);

/* Returns 0 also if there are as many as there may be. */
static int start_worker(void)
{
	uint32_t count;
	int error = 0;

	pthread_mutex_lock(&queue.start_mutex);
	count = queue.worker_count;
	if (count < WORKERS && !__atomic_load_n(&queue.stopping, __ATOMIC_ACQUIRE)) {
		error = ob_host_thread_create(work, NULL, "outboard-block", &queue.workers[count]);
		if (!error)
			__atomic_store_n(&queue.worker_count, count + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&queue.start_mutex);
	return error;
}

/* The calling worker may block for long. Whoever submits meanwhile shall find one that sleeps. */
static void leave_another(void)
{
	if (__atomic_load_n(&queue.worker_count, __ATOMIC_ACQUIRE) < WORKERS &&
	    !__atomic_load_n(&queue.sleepers, __ATOMIC_SEQ_CST))
		start_worker();		/* without one, requests wait for those that there are */
}

static void work(void *unused)
{
	(void)unused;
	for (;;) {
		uint32_t seen = __atomic_load_n(&queue.arrivals, __ATOMIC_SEQ_CST);
		struct ob_block_request *request = take_oldest();

		if (request) {
			leave_another();
			complete(request);
		} else if (__atomic_load_n(&queue.stopping, __ATOMIC_ACQUIRE)) {
			return;
		} else {
			sleep_until_arrival(seen);
		}
	}
}

static void stop_workers(void)
{
	/* A worker that starts another one does so before this, or not at all. */
	pthread_mutex_lock(&queue.start_mutex);
	__atomic_store_n(&queue.stopping, true, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&queue.start_mutex);
	wake_worker(WORKERS);
	while (queue.worker_count)
		ob_host_thread_join(queue.workers[--queue.worker_count]);
	queue.stopping = false;
}

int ob_block_queue_get(void)
{
	int error = 0;

	pthread_mutex_lock(&queue.users_mutex);
	if (queue.users == 0)
		error = start_worker();
	if (!error)
		queue.users++;
	pthread_mutex_unlock(&queue.users_mutex);
	return error;
}

void ob_block_queue_forked(void)
{
	memset(&queue, 0, sizeof(queue));
	pthread_mutex_init(&queue.mutex, NULL);
	pthread_mutex_init(&queue.users_mutex, NULL);
	pthread_mutex_init(&queue.start_mutex, NULL);
}

void ob_block_queue_put(void)
{
	pthread_mutex_lock(&queue.users_mutex);
	if (--queue.users == 0)
		stop_workers();
	pthread_mutex_unlock(&queue.users_mutex);
}
